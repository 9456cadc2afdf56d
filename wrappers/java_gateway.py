"""Gateway of py4j to a Java process that raises failures and Ctrl-C directly.

py4j's own client retries after some failures, writes tracebacks of others to standard error, and loses a Ctrl-C that
arrives while Java is working.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import GatewayClient, GatewayParameters, JavaGateway


def make_gateway(parameters: GatewayParameters) -> JavaGateway:
    """Make a gateway that sends every command once. It connects at the first command."""
    gateway = JavaGateway(gateway_parameters=parameters)
    gateway.set_gateway_client(_Client(gateway_parameters=parameters))
    return gateway


class _Client(GatewayClient):  # type: ignore[misc]  # py4j has no types
    def send_command(self, command: str, retry: bool = True, binary: bool = False) -> Any:
        """Send a command and return the answer. Raises `Py4JNetworkError` and closes the connection on failure."""
        connection = self._get_connection()
        try:
            answer = connection.send_command(command)
        except BaseException:
            connection.close(reset=True)
            raise
        self._give_back_connection(connection)
        return answer
