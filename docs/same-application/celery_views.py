from celery_batches import Batches, SimpleRequest
from celery_shop import celery, viewed


@celery.task(base=Batches, flush_every=100, flush_interval=1)
def store(requests: list[SimpleRequest]) -> None:
    viewed.extend(request.args[0] for request in requests)
