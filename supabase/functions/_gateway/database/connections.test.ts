import { once } from "node:events";
import { readFileSync } from "node:fs";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { afterEach, expect, test } from "vitest";
import { heartbeatIntervalMs } from "../runs/open-runs.ts";
import {
  answerTimeoutMs,
  createConnections,
  databaseWaitMs,
  isConnectionLost,
  isUnanswered,
  wasRolledBack,
} from "./connections.ts";

let server: Server | undefined;
let connections: ReturnType<typeof createConnections> | undefined;
afterEach(async () => {
  await connections?.close();
  connections = undefined;
  server?.close();
});

const message = (type: string, body: string) => {
  const length = Buffer.alloc(4);
  length.writeInt32BE(4 + Buffer.byteLength(body, "latin1"));
  return Buffer.concat([Buffer.from(type), length, Buffer.from(body, "latin1")]);
};
const ready = message("Z", "I");
const authenticated = Buffer.concat([message("R", "\0\0\0\0"), ready]);
const row = Buffer.concat([
  message("1", ""),
  message("2", ""),
  message("T", "\0\x01text\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0"),
  message("D", "\0\x01\0\0\0\x02ok"),
  message("C", "SELECT 1\0"),
  ready,
]);
const error = (severity: string, code: string, text: string) =>
  message("E", `S${severity}\0V${severity}\0C${code}\0M${text}\0\0`);

/**
 * Starts a server that speaks Postgres's wire protocol (PostgreSQL, Frontend/Backend Protocol). `answer` responds to
 * each statement.
 */
async function listen(
  answer: (socket: Socket, statement: { name: string }) => void,
  { authenticatesAfterMs = 0 } = {},
): Promise<void> {
  server = createServer((socket) => {
    let isStarted = false;
    socket.on("error", () => undefined);
    socket.on("data", (chunk) => {
      if (!isStarted) {
        isStarted = true;
        return void setTimeout(() => socket.write(authenticated), authenticatesAfterMs);
      }
      if (String.fromCharCode(chunk[0] ?? 0) === "X") return;
      const parse = chunk[0] === "P".charCodeAt(0);
      const name = parse ? chunk.subarray(5, chunk.indexOf(0, 5)).toString() : "already parsed";
      answer(socket, { name });
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  connections = createConnections({ url: `postgres://gateway:secret@127.0.0.1:${port}/postgres` });
}

const call = () => (connections as NonNullable<typeof connections>).call("ai.begin_runs", {});
const failureOf = (work: Promise<unknown>) =>
  work.then(
    () => expect.fail("it was answered"),
    (failure: unknown) => failure,
  );

test("waits for a server that accepts the connection but is slow to authenticate", async () => {
  await listen((socket) => socket.write(row), { authenticatesAfterMs: 1_200 });
  expect(await call()).toBe("ok");
});

test("fails without waiting if the server refuses or drops connections", async () => {
  await listen((socket) => socket.write(row));
  await new Promise((resolve) => server?.close(resolve));
  expect(isUnanswered(await failureOf(call()))).toBe(true);
  server = createServer((socket) => socket.destroy()).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  await connections?.close();
  connections = createConnections({ url: `postgres://gateway:secret@127.0.0.1:${port}/postgres` });
  expect(isUnanswered(await failureOf(call()))).toBe(true);
});

// PgBouncer 1.18 sends FATAL with SQLSTATE 08P01 and then closes the connection (send_pooler_error in src/proto.c).
test.each(["server conn crashed?", "query_wait_timeout", "pgbouncer cannot connect to server"])(
  "treats a statement as unanswered if a pooler ends it with “%s”, since it may have been committed",
  async (text) => {
    await listen((socket) => socket.end(error("FATAL", "08P01", text)));
    const failure = await failureOf(call());
    expect(isUnanswered(failure)).toBe(true);
    expect(wasRolledBack(failure)).toBe(false);
  },
);

// Postgres may send this error at any point (quickdie() in src/backend/tcop/postgres.c).
test("treats a statement interrupted by a crash of Postgres as unanswered", async () => {
  await listen((socket) =>
    socket.end(error("FATAL", "57P02", "terminating connection because of crash of another server process")),
  );
  expect(isUnanswered(await failureOf(call()))).toBe(true);
});

// Supavisor reports a server that it has lost with FATAL XX000 (Supavisor.DbHandler.terminate/3), also after a commit.
test("neither repeats a statement whose pooler lost the server, nor treats it as rolled back", async () => {
  let statements = 0;
  await listen((socket) => {
    statements += 1;
    socket.end(error("FATAL", "XX000", ":db_termination"));
  });
  const failure = await failureOf(call());
  expect([isUnanswered(failure), wasRolledBack(failure), statements]).toEqual([true, false, 1]);
});

// Postgres never sends this error between a commit and its answer (ProcessInterrupts() in src/backend/tcop/postgres.c),
// nor while the commit waits for a standby (SyncRepWaitForLSN() in src/backend/replication/syncrep.c).
test("treats a statement interrupted by a shutdown of Postgres as rolled back", async () => {
  await listen((socket) => socket.end(error("FATAL", "57P01", "terminating connection due to administrator command")));
  expect(wasRolledBack(await failureOf(call()))).toBe(true);
});

test("treats a statement that Postgres rejects as rolled back", async () => {
  await listen((socket) =>
    socket.write(Buffer.concat([error("ERROR", "57014", "canceling statement due to statement timeout"), ready])),
  );
  const failure = await failureOf(call());
  expect(wasRolledBack(failure)).toBe(true);
  expect(isUnanswered(failure)).toBe(false);
});

// A primary that lost its role comes back as a standby at the same address, which answers reads.
test("leaves a Postgres that has become a standby: replaces its connections and repeats the statement", async () => {
  const refused = Buffer.concat([error("ERROR", "25006", "cannot execute INSERT in a read-only transaction"), ready]);
  const sockets = new Set<Socket>();
  let demoted: ReadonlySet<Socket> = new Set();
  let refusals = 0;
  await listen((socket) => {
    sockets.add(socket);
    if (demoted.has(socket)) refusals += 1;
    socket.write(demoted.has(socket) ? refused : row);
  });
  await Promise.all([call(), call(), call()]);
  demoted = new Set(sockets);
  expect(demoted.size).toBe(3);
  expect(await Promise.all([call()])).toEqual(["ok"]);
  expect(await Promise.all([call(), call(), call()])).toEqual(["ok", "ok", "ok"]);
  expect(refusals).toBe(1);
});

test("a late refusal by a former primary replaces no connection that was opened since", async () => {
  const refused = Buffer.concat([error("ERROR", "25006", "cannot execute INSERT in a read-only transaction"), ready]);
  const sockets = new Set<Socket>();
  let demoted: ReadonlySet<Socket> = new Set();
  const refuse: (() => void)[] = [];
  await listen((socket) => {
    sockets.add(socket);
    if (!demoted.has(socket)) socket.write(row);
    else if (refuse.push(() => socket.write(refused)) === 2) refuse[0]?.();
  });
  await Promise.all([call(), call()]);
  demoted = new Set(sockets);
  const calls = [call(), call()];
  expect(await Promise.race(calls)).toBe("ok");
  refuse[1]?.();
  expect(await Promise.all(calls)).toEqual(["ok", "ok"]);
  expect(sockets.size).toBe(3);
});

test("a statement that only standbys answer is rolled back, and is answered 503 with Retry-After", async () => {
  const refused = Buffer.concat([error("ERROR", "25006", "cannot execute INSERT in a read-only transaction"), ready]);
  await listen((socket) => socket.write(refused));
  const failure = await failureOf(call());
  expect([wasRolledBack(failure), isUnanswered(failure), isConnectionLost(failure)]).toEqual([true, false, true]);
  expect(failure).toMatchObject({ status: 503, headers: { "retry-after": "5" } });
});

test.each([
  ["42883", "function ai.settle_batch(ai.run_report[]) does not exist"],
  ["42846", "cannot cast type record to ai.caller"],
  ["0A000", "cached plan must not change result type"],
  ["XX000", "cache lookup failed for type 18576"],
])("repeats a statement once if a migration replaced what it used, which is %s", async (code, text) => {
  const failed = Buffer.concat([error("ERROR", code, text), ready]);
  const answers = [failed, row, failed, failed, row];
  await listen((socket) => socket.write(answers.shift() ?? row));
  expect(await call()).toBe("ok");
  expect(wasRolledBack(await failureOf(call()))).toBe(true);
  expect(answers).toEqual([row]);
});

test.each([
  ["26000", 'prepared statement "select ai.begin_runs($1)::text" does not exist'],
  ["42P05", 'prepared statement "select ai.begin_runs($1)::text" already exists'],
])(
  "if the server behind a pooler refuses a prepared statement with %s, the gateway sends it and all later statements unnamed",
  async (code, text) => {
    const names: string[] = [];
    await listen((socket, { name }) => {
      names.push(name);
      socket.write(name === "" ? row : Buffer.concat([error("ERROR", code, text), ready]));
    });
    expect(await call()).toBe("ok");
    expect(await call()).toBe("ok");
    expect(names).toEqual(["select ai.begin_runs($1)::text", "", ""]);
  },
);

const supabase = new URL("../../../", import.meta.url);

/** Returns the seconds that a pattern finds in a file of `supabase/`, in milliseconds. */
function secondsIn(file: string, pattern: RegExp): number {
  const seconds = Number(pattern.exec(readFileSync(new URL(file, supabase), "utf8"))?.[1]);
  expect(seconds, `${pattern} in ${file}`).toBeGreaterThan(0);
  return seconds * 1_000;
}

const sweep = "schemas/gateway/sweep.sql";
const roles = "migrations/20260801090000_schemas_and_roles.sql";

test("the sweep leaves a run open whose admission took as long as a call may wait, until its first heartbeat", () => {
  const abandonedMs = secondsIn(sweep, /cutoff timestamptz := now\(\) - interval '(\d+) seconds'/);
  expect(abandonedMs).toBeGreaterThanOrEqual(databaseWaitMs + heartbeatIntervalMs + 5_000);
});

test("the sweep's margin is longer than an admission may take to get its transaction id", () => {
  const marginMs = secondsIn(sweep, /marked_at - interval '(\d+) seconds'/);
  const startMs = secondsIn(
    "schemas/gateway/admission.sql",
    /clock_timestamp\(\) - now\(\) > interval '(\d+) seconds'/,
  );
  expect(marginMs).toBeGreaterThan(startMs);
});

test("orphaned runs are found however long the statement that releases them was under way", () => {
  const lookBackMs = secondsIn(sweep, /now\(\) - interval '(\d+) seconds' - \(lost/);
  expect(lookBackMs).toBeGreaterThan(answerTimeoutMs);
});

test("a statement of the gateway's role times out before the gateway gives up on it, and a lock before the statement", () => {
  const statementMs = secondsIn(roles, /alter role gateway set statement_timeout = '(\d+)s'/);
  const lockMs = secondsIn(roles, /alter role gateway set lock_timeout = '(\d+)s'/);
  expect(lockMs).toBeLessThan(statementMs);
  expect(statementMs).toBeLessThan(answerTimeoutMs);
  expect(lockMs).toBeLessThan(databaseWaitMs);
});
