#!/usr/bin/env python3
#
# delay_proxy.py MILLISECONDS HOST:PORT PORT_FILE
#	  Passes connections on to HOST:PORT, and adds a delay to each HTTP request.
#
# Listens on a port of 127.0.0.1 that it writes to PORT_FILE.  Each connection has its own
# delays, so requests that are under way side by side are delayed side by side, and nothing
# limits how many these are, nor their bytes.  A request begins with the first bytes of the
# client's after the server has answered, as there is no pipelining.

import asyncio
import os
import socket
import sys

CHUNK = 1 << 18


async def pass_on(reader, writer, delay, side, other):
    """Copy one direction.  side and other: has this direction begun, and the other?"""
    try:
        while True:
            data = await reader.read(CHUNK)
            if not data:
                break
            if delay and not side["talking"]:
                await asyncio.sleep(delay)
            side["talking"] = True
            other["talking"] = False
            writer.write(data)
            await writer.drain()
    except (ConnectionError, asyncio.CancelledError):
        pass
    finally:
        writer.close()


async def serve(client_reader, client_writer, host, port, delay):
    client = {"talking": False}
    server = {"talking": False}
    try:
        server_reader, server_writer = await asyncio.open_connection(host, port, limit=CHUNK)
    except OSError:
        client_writer.close()
        return
    for writer in (client_writer, server_writer):
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    await asyncio.gather(
        pass_on(client_reader, server_writer, delay, client, server),
        pass_on(server_reader, client_writer, 0, server, client),
    )


async def main(milliseconds, target, port_file):
    host, port = target.rsplit(":", 1)

    def connected(reader, writer):
        return serve(reader, writer, host, int(port), milliseconds / 1000)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=CHUNK, backlog=1024)
    with open(port_file + ".new", "w", encoding="ascii") as out:
        out.write(str(server.sockets[0].getsockname()[1]))
    os.rename(port_file + ".new", port_file)
    async with server:
        await server.serve_forever()


asyncio.run(main(float(sys.argv[1]), sys.argv[2], sys.argv[3]))
