"""py4j's gateway to a Java process, with failures and Ctrl-C raised as they come.

py4j's own client asks again after some failures, writes tracebacks of others to standard error, and loses a Ctrl-C that
comes while Java is working.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import GatewayClient, GatewayParameters, JavaGateway


def make_gateway(parameters: GatewayParameters) -> JavaGateway:
    """A gateway whose every command is sent once. It connects at the first command."""
    gateway = JavaGateway(gateway_parameters=parameters)
    gateway.set_gateway_client(_Client(gateway_parameters=parameters))
    return gateway


class _Client(GatewayClient):  # type: ignore[misc]  # py4j has no types
    def send_command(self, command: str, retry: bool = True, binary: bool = False) -> Any:
        """The answer to a command. Raises `Py4JNetworkError`; the connection is closed then."""
        connection = self._get_connection()
        try:
            answer = connection.send_command(command)
        except BaseException:
            connection.close(reset=True)
            raise
        self._give_back_connection(connection)
        return answer
