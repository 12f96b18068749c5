"""Object messages: a body of any value, in JSON or as a codec of the application writes it."""

from typing import TYPE_CHECKING, Any, cast

from jbm_kafka.codec.bodies import BodyShape, ObjectBody
from jbm_kafka.codec.object_codecs import JSON, checked_codec, decode_object, encode_object
from jbm_kafka.jms.messages.message import Message


class ObjectMessage(Message):
    """A message whose body is any value that its codec can carry; JSON unless another one was registered.

    The value becomes bytes when it is set, and a value when `body` is asked for, each time anew: what is changed in it
    changes nothing in the message.
    """

    __slots__ = ()
    _shape = BodyShape.OBJECT

    def __init__(self, body: object = None, codec: str = JSON) -> None:
        """A message of this value.

        Raises:
            MessageFormatError: the codec cannot carry it.
            InvalidSettingError: the codec is not registered (`jbm_kafka.register_object_codec`).
        """
        super().__init__()
        self._body = ObjectBody(checked_codec(codec), None)
        self._body = self._checked_body(body)

    @property
    def body(self) -> Any:
        """The value, decoded now.

        Raises:
            MessageFormatError: its codec is not registered here, or cannot decode it. Nothing is lost by that: the
                message can be given back, `data` has its bytes, and it can be sent on as it is.
        """
        codec, data, reader = self._object
        if data is None:
            return None
        return decode_object(codec, data) if reader is None else reader(data)

    if TYPE_CHECKING:

        @body.setter
        def body(self, body: object) -> None: ...

    else:

        @body.setter
        def body(self, body: object) -> None:
            self._write_body(self._checked_body(body))

    @property
    def codec(self) -> str:
        """The name of its codec."""
        return self._object.codec

    @property
    def data(self) -> bytes:
        """The body as its codec has written it."""
        data = self._object.data
        return b"null" if data is None else data

    def clear_body(self) -> None:
        """Empties the body and makes it writable; its codec stays."""
        codec = self.codec
        super().clear_body()
        self._body = ObjectBody(codec, None)

    @property
    def _object(self) -> ObjectBody:
        return cast(ObjectBody, self._body)

    def _checked_body(self, body: object) -> ObjectBody:
        codec = self.codec
        return ObjectBody(codec, None if body is None else encode_object(codec, body))
