from faststream_shop import router
from taskiq.schedule_sources import LabelScheduleSource
from taskiq_faststream import BrokerWrapper, StreamScheduler

broker = BrokerWrapper(router.broker)
broker.task(message="", topic="reports", schedule=[{"cron": "0 3 * * *"}])
scheduler = StreamScheduler(broker=broker, sources=[LabelScheduleSource(broker)])
