# Spark with jbm-kafka and the jars that join it to Kafka: the same image for master, workers, drivers and jobs.
#   make dist && docker build --file docker/spark.Dockerfile --tag jbm-kafka-spark .
# BASE needs Debian's packages and the Python that the drivers have.
ARG BASE=python:3.11-slim-bookworm
ARG MAVEN=maven:3-eclipse-temurin-17

FROM ${MAVEN} AS jars
COPY spark/jbm_spark/pom.xml /pom.xml
RUN mvn --batch-mode --no-transfer-progress -f /pom.xml dependency:copy-dependencies \
    -DincludeScope=runtime -DoutputDirectory=/jars

FROM ${BASE}
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*
COPY dist/*.whl /tmp/
RUN pip install --no-cache-dir "$(echo /tmp/jbm_kafka-*.whl)[spark]" && rm /tmp/jbm_kafka-*.whl
ENV JBM_SPARK_JARS=/opt/jbm/jars
COPY --from=jars /jars /opt/jbm/jars
# Checked by their sums; then where Spark looks, so that spark-submit needs no --jars.
RUN python -m jbm_spark.jars check \
    && cp /opt/jbm/jars/*.jar "$(python -c 'import pyspark; print(pyspark.__path__[0])')/jars/" \
    && ln -s "$(python -c 'import pyspark; print(pyspark.__path__[0])')" /opt/spark \
    && ln -s "$(python -m jbm_spark.submit program)" /opt/jbm/jobs.py \
    && useradd --create-home --uid 1000 spark \
    && install --directory --owner spark /data
ENV SPARK_HOME=/opt/spark PYSPARK_PYTHON=python3
USER spark
WORKDIR /home/spark
CMD ["jbm-spark", "--help"]
