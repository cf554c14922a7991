import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** Forwards TCP to one local port, immediately or after a delay. */
export interface DelayingProxy {
  port: number;
  /** Sets the port to forward to. Connections that arrive before this call wait for it. */
  passTo(port: number): void;
  /** Delays every chunk in both directions from now on, by a time within the range (milliseconds). */
  delay(range: { fromMs: number; toMs: number } | null): void;
  close(): Promise<void>;
}

export async function createDelayingProxy(random: () => number = Math.random): Promise<DelayingProxy> {
  let told: (port: number) => void = () => {};
  const upstream = new Promise<number>((resolve) => (told = resolve));
  let range: { fromMs: number; toMs: number } | null = null;
  const open = new Set<Socket>();

  /**
   * Forwards chunks in their order of arrival, even if a later chunk has a shorter delay. Then forwards the end of the
   * stream.
   */
  function pass(from: Socket, to: Socket): void {
    const waiting: { chunk: Buffer | null; dueAt: number }[] = [];
    let timer: NodeJS.Timeout | undefined;
    function flush(): void {
      timer = undefined;
      while (waiting[0] && waiting[0].dueAt <= performance.now()) {
        const { chunk } = waiting.shift() ?? {};
        if (!chunk) to.end();
        else if (to.writable) to.write(chunk);
      }
      const [next] = waiting;
      if (next) timer ??= setTimeout(flush, Math.max(1, next.dueAt - performance.now()));
      else if (to.writableNeedDrain) {
        from.pause();
        to.once("drain", () => from.resume());
      }
    }
    function add(chunk: Buffer | null): void {
      const delayMs = range ? range.fromMs + random() * (range.toMs - range.fromMs) : 0;
      waiting.push({ chunk, dueAt: Math.max(waiting.at(-1)?.dueAt ?? 0, performance.now() + delayMs) });
      if (!timer) flush();
    }
    from.on("data", add);
    from.on("end", () => add(null));
  }

  const server = createServer({ allowHalfOpen: true }, async (client) => {
    client.on("error", () => undefined);
    open.add(client);
    client.pause();
    const port = await upstream;
    const database = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    client.setNoDelay(true);
    database.setNoDelay(true);
    open.add(database);
    for (const [socket, other] of [
      [client, database],
      [database, client],
    ] as const) {
      socket.on("error", () => other.destroy());
      socket.on("close", () => {
        open.delete(socket);
        if (socket.errored) other.destroy();
      });
      pass(socket, other);
    }
    client.resume();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    passTo: (port) => told(port),
    delay(to) {
      range = to;
    },
    async close() {
      for (const socket of open) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}
