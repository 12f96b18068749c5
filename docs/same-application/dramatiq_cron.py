from apscheduler.schedulers.blocking import BlockingScheduler
from apscheduler.triggers.cron import CronTrigger
from dramatiq_shop import report

scheduler = BlockingScheduler()
scheduler.add_job(report.send, CronTrigger.from_crontab("0 3 * * *"))
scheduler.start()
