# What an installation runs: --target worker, sidecar, console or exporter. They share all layers but the last.
#   make dist && docker build --file docker/images.Dockerfile --target sidecar --tag jbm-kafka-sidecar .
# docker/build.sh images makes all four, also where no registry can be had.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
COPY constraints.txt /
COPY dist /dist
# dist/wheels, where there is one, has all that is needed, and nothing is compiled or fetched.
RUN [ -d /dist/wheels ] || { apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev; }
RUN python3 -m venv /opt/jbm-kafka \
    && /opt/jbm-kafka/bin/pip install --no-cache-dir --constraint /constraints.txt \
       $([ ! -d /dist/wheels ] || echo --no-index --find-links /dist/wheels) \
       "$(echo /dist/jbm_kafka-*.whl)[amqp,console,metrics]" \
    && /opt/jbm-kafka/bin/pip uninstall --yes setuptools pip

# The root file system may be read-only: all that is written is below /var/lib/jbm-kafka, and may go with the container.
FROM ${BASE} AS installed
COPY --from=build /opt/jbm-kafka /opt/jbm-kafka
RUN useradd --uid 1000 --no-create-home --home-dir /var/lib/jbm-kafka jbm \
    && install --directory --owner jbm --group jbm /var/lib/jbm-kafka
ENV PATH=/opt/jbm-kafka/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 TMPDIR=/var/lib/jbm-kafka
USER 1000:1000
VOLUME /var/lib/jbm-kafka
# It asks itself, so by TLS it takes whatever certificate it has.
HEALTHCHECK --interval=10s --timeout=6s --start-period=30s \
    CMD ["python", "-c", "import os, ssl, urllib.request as it; it.urlopen(os.environ['HEALTH_URL'], timeout=5, context=ssl._create_unverified_context())"]

# FROM jbm-kafka-worker, COPY shop.py /app/, and `docker run IMAGE shop:worker`.
FROM installed AS worker
WORKDIR /app
ENV HEALTH_URL=http://127.0.0.1:9000/healthz
EXPOSE 9000
ENTRYPOINT ["jbm-kafka", "run", "--metrics-port", "9000"]

FROM installed AS service
COPY docker/jbm-kafka.toml /etc/jbm-kafka/jbm-kafka.toml
ENV JBM_CONFIG=/etc/jbm-kafka/jbm-kafka.toml

FROM service AS sidecar
ENV HEALTH_URL=http://127.0.0.1:9000/healthz
EXPOSE 5672 9000
ENTRYPOINT ["jbm-kafka", "sidecar", "run"]

FROM service AS console
ENV HEALTH_URL=http://127.0.0.1:8161/healthz
EXPOSE 8161
ENTRYPOINT ["jbm-kafka", "console"]

FROM service AS exporter
ENV HEALTH_URL=http://127.0.0.1:9108/healthz
EXPOSE 9108
ENTRYPOINT ["jbm-kafka", "exporter"]
