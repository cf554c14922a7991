import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { readStack } from "../../../scripts/test/stack.ts";

/** A proxied connection to Postgres as role `gateway` that records the traffic, and can be cut. */
export type DatabaseLine = {
  url: string;
  /** Counts the round trips: how often we sent something and then waited for an answer. Leaves out route reports. */
  flights: () => number;
  /** Lists the called functions of schema `ai`, in order. Leaves out route reports, which belong to no call. */
  calls: () => string[];
  /** Closes every connection, and refuses new ones until `mend`. */
  cut: () => void;
  /** Cuts all connections when the function `name` next answers, either before or after its answer is delivered. */
  cutAt: (name: string, moment: "before its answer" | "after its answer") => void;
  mend: () => void;
  /** Runs a statement on every database connection, hidden from the client, as poolers do between transactions. */
  say: (sql: string) => Promise<void>;
  close: () => void;
};

/** Opens a proxied connection to the database of the stack under test. */
export async function openLine(): Promise<DatabaseLine> {
  const { hostname, port } = new URL(readStack().gatewayDbUrl);
  const sockets = new Set<Socket>();
  /**
   * The connections to the database. While `say` waits for an answer on a connection, its value is the callback for
   * that answer.
   */
  const toDatabase = new Map<Socket, (() => void) | undefined>();
  let flights = 0;
  const calls: string[] = [];
  let isCut = false;
  let cutting: { name: string; moment: string } | undefined;

  function cut(): void {
    isCut = true;
    for (const socket of sockets) socket.destroy();
  }

  const server = createServer((ours) => {
    if (isCut) return void ours.destroy();
    const theirs = connect(Number(port), hostname);
    toDatabase.set(theirs, undefined);
    let weSpoke = false;
    let asked: string | undefined;
    for (const socket of [ours, theirs]) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        sockets.delete(socket);
        toDatabase.delete(theirs);
        ours.destroy();
        theirs.destroy();
      });
    }
    ours.on("data", (bytes) => {
      if (isCut) return void ours.destroy();
      // Prepared statements are named after their text, so each message contains the function's name.
      const name = /select ai\.(\w+)\(/.exec(bytes.toString("latin1"))?.[1];
      const isReport = name === "report_routes";
      // All messages sent before the next answer count as one round trip.
      if (!weSpoke && !isReport) flights += 1;
      weSpoke = true;
      if (name && !isReport) calls.push(name);
      asked = name ?? asked;
      theirs.write(bytes);
    });
    theirs.on("data", (bytes) => {
      const heard = toDatabase.get(theirs);
      if (heard) {
        if (isReady(bytes)) heard();
        return;
      }
      weSpoke = false;
      const isCutting = asked !== undefined && asked === cutting?.name;
      if (isCutting && cutting?.moment === "before its answer") return cut();
      ours.write(bytes);
      if (!isReady(bytes)) return;
      asked = undefined;
      if (!isCutting) return;
      isCut = true;
      // Delivers the rest of the answer on this connection, and closes all others.
      ours.end();
      for (const socket of sockets) if (socket !== ours && socket !== theirs) socket.destroy();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = new URL(readStack().gatewayDbUrl);
  url.hostname = "127.0.0.1";
  url.port = String((server.address() as AddressInfo).port);
  return {
    url: url.href,
    flights: () => flights,
    calls: () => [...calls],
    cut,
    cutAt: (name, moment) => {
      cutting = { name, moment };
    },
    mend: () => {
      if (cutting && !isCut) throw new Error(`the line was to be cut at ${cutting.name}, which was never called`);
      isCut = false;
      cutting = undefined;
    },
    say: async (sql) => {
      const said = [...toDatabase.keys()].map((socket) => {
        return new Promise<void>((resolve) => {
          toDatabase.set(socket, () => {
            toDatabase.set(socket, undefined);
            resolve();
          });
          socket.write(queryOf(sql));
        });
      });
      await Promise.all(said);
    },
    close: () => {
      cut();
      server.close();
    },
  };
}

/** A simple query (PostgreSQL, Message Formats). */
function queryOf(sql: string): Buffer {
  const text = Buffer.from(`${sql}\0`);
  const head = Buffer.alloc(5);
  head.write("Q");
  head.writeInt32BE(4 + text.length, 1);
  return Buffer.concat([head, text]);
}

/** Returns whether an answer is complete: it ends with ReadyForQuery (PostgreSQL, Message Formats). */
function isReady(bytes: Buffer): boolean {
  return bytes.subarray(-6, -1).equals(Buffer.from([0x5a, 0, 0, 0, 5]));
}
