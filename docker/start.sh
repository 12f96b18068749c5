#!/bin/sh
# Runs the broker as the container's only process. ADVERTISED is the host:port under which clients outside reach it.
set -eu
: "${ADVERTISED:?say under which host:port clients reach this broker, for instance 127.0.0.1:9092}"
cd /opt/kafka
# The broker also talks to itself, to end transactions. From inside the container it does not reach the address that is
# advertised to clients, so that conversation has a listener of its own.
{
  cat common.properties
  echo "controller.quorum.voters=1@localhost:9093"
  echo "listeners=PLAINTEXT://0.0.0.0:9092,INTERNAL://localhost:9094,CONTROLLER://localhost:9093"
  echo "advertised.listeners=PLAINTEXT://$ADVERTISED,INTERNAL://localhost:9094"
  echo "inter.broker.listener.name=INTERNAL"
  echo "log.dirs=/opt/kafka/data"
} > server.properties
if [ ! -f data/meta.properties ]; then
  java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "jars/*" kafka.tools.StorageTool format --ignore-formatted \
    --cluster-id=JbmKafkaTestsOneNode0A --config server.properties > /dev/null
fi
# As the tests' brokers without a container: Java's second compiler costs a third of what such a broker does in all.
exec java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx512m -Dlog4j2.configurationFile=log4j2.properties \
  -cp "jars/*" kafka.Kafka server.properties
