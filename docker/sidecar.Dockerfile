# The sidecar as a server of AMQP 1.0.
#   make dist && docker build --file docker/sidecar.Dockerfile --tag jbm-kafka-sidecar .
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev
COPY dist/*.whl /tmp/
RUN python -m venv /opt/jbm-kafka \
    && /opt/jbm-kafka/bin/pip install --no-cache-dir "$(echo /tmp/jbm_kafka-*.whl)[amqp,metrics]"

FROM ${BASE}
COPY --from=build /opt/jbm-kafka /opt/jbm-kafka
COPY docker/sidecar.toml /etc/jbm-kafka/sidecar.toml
RUN ln -s /opt/jbm-kafka/bin/jbm-kafka /usr/local/bin/ \
    && useradd --create-home --uid 1000 jbm \
    && install --directory --owner jbm /var/lib/jbm-kafka
USER jbm
EXPOSE 5672 9000
ENTRYPOINT ["jbm-kafka", "sidecar", "run"]
CMD ["/etc/jbm-kafka/sidecar.toml"]
