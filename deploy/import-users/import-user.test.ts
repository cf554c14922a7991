import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { createClient } from "@supabase/supabase-js";
import { afterEach, describe, expect, test } from "vitest";
import { BackendError, importUser } from "./import-user.ts";
import { type FileUser, importUsers } from "./import-users.ts";
import { openReport, type ReportEntry } from "./report.ts";
import { type SourceUser, UnusableRecord } from "./source-user.ts";

type Answer = { status: number; body?: object } | "lost" | "lost after the account was created";
type Call = { method: string; id: string; body: Record<string, unknown> };

const stops: (() => void)[] = [];
afterEach(() => {
  for (const stop of stops.splice(0)) stop();
});

const emailExists = { status: 422, body: { code: "email_exists", msg: "already registered" } };
const notFound = { status: 404, body: { code: "user_not_found" } };
const failure = { status: 500, body: { code: "unexpected_failure", msg: "Database error creating new user" } };

/**
 * A server with Supabase Auth's two calls. Answers each `POST` with the next of `answers`, and creates the account when
 * there is none left.
 */
async function startBackend(answers: Answer[] = [], accounts: Record<string, Record<string, unknown>> = {}) {
  const calls: Call[] = [];
  const server = createServer(async (request, response) => {
    const reply = (status: number, body: object = {}) => {
      const headers = { "content-type": "application/json", "x-supabase-api-version": "2024-01-01" };
      response.writeHead(status, headers).end(JSON.stringify(body));
    };
    const parts: Uint8Array[] = [];
    for await (const part of request) parts.push(part);
    const body = request.method === "POST" ? JSON.parse(Buffer.concat(parts).toString()) : {};
    const id = body.id ?? request.url?.split("/").at(-1);
    calls.push({ method: request.method ?? "", id, body });
    const answer = request.method === "POST" ? answers.shift() : undefined;
    if (answer === "lost") return void request.socket.destroy();
    if (typeof answer === "object") return reply(answer.status, answer.body);
    if (request.method === "POST") {
      const isTaken = Object.values(accounts).some(({ email }) => email === body.email);
      if (isTaken) return reply(emailExists.status, emailExists.body);
      accounts[id] = body;
      if (answer) return void request.socket.destroy();
    }
    const account = accounts[id];
    return account ? reply(200, { ...account, id }) : reply(404, notFound.body);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  stops.push(close);
  const { port } = server.address() as AddressInfo;
  const { auth } = createClient(`http://127.0.0.1:${port}`, "sb_secret_test", { auth: { persistSession: false } });
  return { backend: auth.admin, calls, accounts, close };
}

const hash = "$2a$10$srNl09aPtc2qr.0Vl.NtjekJRt/NxRxYQm3qd3OvfcKsJgVnr6.Ve";
const ann: SourceUser = {
  sourceId: "auth0|1",
  email: "ann@example.test",
  emailVerified: true,
  password: { hash },
  name: "Ann",
  picture: "https://example.test/a.png",
  disabled: false,
  omitted: [],
};
const waits: number[] = [];
const options = { provider: "auth0", wait: async (ms: number) => waits.push(ms) } as const;
const imported = { imported_from: { provider: "auth0", id: "auth0|1" } };

describe("importUser", () => {
  test("sends the hash, the confirmation, the profile and the origin, and derives the id from the user's", async () => {
    const { backend, calls } = await startBackend();
    expect(await importUser(backend, ann, options)).toEqual({ outcome: "created", userId: calls[0]?.id });
    expect(calls).toEqual([
      {
        method: "POST",
        id: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/),
        body: {
          id: expect.any(String),
          email: ann.email,
          email_confirm: true,
          password_hash: hash,
          user_metadata: { full_name: "Ann", avatar_url: ann.picture },
          app_metadata: imported,
        },
      },
    ]);
  });

  test("bans a disabled user, leaves an email unconfirmed, and sends no hash if there is none", async () => {
    const { backend, calls } = await startBackend();
    const user = { ...ann, emailVerified: false, disabled: true, password: { missing: "no_password" } } as const;
    await importUser(backend, { ...user, name: undefined, picture: undefined }, options);
    const { id, ...body } = calls[0]?.body ?? {};
    expect(body).toEqual({
      email: ann.email,
      email_confirm: false,
      user_metadata: {},
      app_metadata: imported,
      ban_duration: "876000h",
    });
  });

  test.each<[string, Answer[], object]>([
    ["a second import", [], { outcome: "present" }],
    // An id in use fails with 500: the account has another email by now.
    ["an account with another email", [failure], { outcome: "present", otherEmail: true }],
  ])("leaves an account of this import as it is: %s", async (_, answers, expected) => {
    const { backend, calls, accounts } = await startBackend();
    await importUser(backend, ann, options);
    const id = calls[0]?.id ?? "";
    const email = answers.length > 0 ? "new@example.test" : ann.email;
    const account = { email, app_metadata: imported };
    const again = await startBackend(answers, { [id]: account });
    expect(await importUser(again.backend, ann, options)).toEqual({ userId: id, ...expected });
    expect(again.accounts).toEqual({ [id]: account });
    expect(Object.keys(accounts)).toEqual([id]);
  });

  test.each([
    ["email_taken", "6f1c9c5e-0000-4000-8000-000000000000", {}],
    ["id_taken", undefined, { app_metadata: {} }],
    ["id_taken", undefined, { app_metadata: { imported_from: { provider: "clerk", id: "auth0|1" } } }],
  ])("never takes over another account: %s", async (reason, otherId, changes) => {
    const first = await startBackend();
    await importUser(first.backend, ann, options);
    const account = { email: ann.email, app_metadata: {}, ...changes };
    const { backend, accounts } = await startBackend([], { [otherId ?? first.calls[0]?.id ?? ""]: account });
    expect(await importUser(backend, ann, options)).toEqual({ outcome: "not_taken", reason });
    expect(Object.values(accounts)).toEqual([account]);
  });

  test.each<[string, Answer[], string]>([
    ["errors and limits", [failure, { status: 429 }, { status: 503 }], "created"],
    ["a lost call", ["lost"], "created"],
    ["a lost answer", ["lost after the account was created"], "present"],
  ])("tries again after %s, and creates one account", async (_, answers, outcome) => {
    waits.length = 0;
    const { backend, accounts } = await startBackend([...answers]);
    expect(await importUser(backend, ann, options)).toMatchObject({ outcome });
    expect(Object.keys(accounts)).toHaveLength(1);
    expect(waits).toEqual(outcome === "present" ? [] : answers.map((_answer, index) => 500 * 2 ** index));
  });

  test("reports a user if the backend keeps failing, and stops if the backend is gone or refuses the key", async () => {
    const failing = await startBackend(Array(6).fill(failure));
    expect(await importUser(failing.backend, ann, options)).toEqual({
      outcome: "not_taken",
      reason: "failed",
      detail: "500",
    });
    const limited = await startBackend(Array(6).fill({ status: 429, body: { code: "over_request_rate_limit" } }));
    await expect(importUser(limited.backend, ann, options)).rejects.toThrow("stayed unavailable (429");
    const refusing = await startBackend([{ status: 401, body: { msg: "Invalid API key" } }]);
    await expect(importUser(refusing.backend, ann, options)).rejects.toThrow("refused SUPABASE_SECRET_KEY");
    const gone = await startBackend();
    gone.close();
    await expect(importUser(gone.backend, ann, options)).rejects.toThrow(BackendError);
  });

  test("reports a user that the backend refuses, without a second call", async () => {
    const { backend, calls } = await startBackend([{ status: 400, body: { code: "validation_failed", msg: hash } }]);
    const detail = "400 validation_failed";
    expect(await importUser(backend, ann, options)).toEqual({ outcome: "not_taken", reason: "refused", detail });
    expect(calls).toHaveLength(1);
  });
});

describe("importUsers", () => {
  const folder = mkdtempSync(path.join(tmpdir(), "import-users-report-"));
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  test("creates verified users first, reports each record once, and writes no hash", async () => {
    const { backend, calls } = await startBackend();
    const user = (sourceId: string, changes: Partial<SourceUser>) => ({ ...ann, sourceId, ...changes });
    const missing = { missing: "no_password" } as const;
    const records: FileUser[] = [
      { line: 1, value: user("unverified", { emailVerified: false }) },
      { line: 2, value: user("social", { password: missing, email: "b@example.test" }) },
      { line: 3, fault: new UnusableRecord("malformed", { message: "not JSON" }) },
      { line: 4, value: user("verified", { omitted: ["mfa", "phone"] }) },
      { line: 5, value: user("hasher", { password: { missing: "unsupported_hash" }, email: "c@example.test" }) },
    ];
    const file = path.join(folder, "report.jsonl");
    const report = openReport(file);
    await report.opened;
    const openUsers = async function* () {
      yield* records;
    };
    await importUsers(openUsers, { provider: "auth0", backend, report, withoutPassword: false });
    await report.close();

    const text = readFileSync(file, "utf8");
    expect(text).not.toContain("$2");
    const lines = text
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(lines.toSorted((a, b) => a.line - b.line)).toEqual([
      { line: 1, source_id: "unverified", email: ann.email, outcome: "not_taken", reason: "email_taken" },
      { line: 2, source_id: "social", email: "b@example.test", outcome: "not_taken", reason: "no_password" },
      { line: 3, outcome: "not_taken", reason: "malformed", detail: "not JSON" },
      {
        line: 4,
        source_id: "verified",
        email: ann.email,
        outcome: "created",
        user_id: calls[0]?.id,
        omitted: ["mfa", "phone"],
      },
      { line: 5, source_id: "hasher", email: "c@example.test", outcome: "not_taken", reason: "unsupported_hash" },
    ]);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(report.summary()).toBe(
      [
        "1 created, 0 imported earlier, 4 not taken.",
        "Not taken:",
        "        1  email_taken: another account has the email",
        "        1  malformed: the record is damaged",
        "        1  no_password: the user has no password (--without-password creates the account)",
        "        1  unsupported_hash: the password's hash cannot be verified (--without-password creates the account)",
        "Taken without:",
        "        1  mfa: second factors",
        "        1  phone: phone numbers",
        `Report: ${file}`,
      ].join("\n"),
    );
    await expect(openReport(file).opened).rejects.toThrow("EEXIST");
  });

  test("creates users without a password on request, after those with one", async () => {
    const { backend, calls } = await startBackend();
    const added: ReportEntry[] = [];
    const report = { add: async (entry: ReportEntry) => void added.push(entry) };
    const openUsers = async function* (): AsyncGenerator<FileUser> {
      yield { line: 1, value: { ...ann, sourceId: "social", password: { missing: "no_password" } } };
      yield { line: 2, value: { ...ann, sourceId: "database" } };
      yield {
        line: 3,
        value: { ...ann, sourceId: "other", email: "b@example.test", password: { missing: "unsupported_hash" } },
      };
    };
    await importUsers(openUsers, { provider: "auth0", backend, report, withoutPassword: true });
    const outcomes = added.toSorted((a, b) => a.line - b.line).map(({ outcome, reason }) => reason ?? outcome);
    expect(outcomes).toEqual(["email_taken", "created", "created"]);
    expect(calls.filter(({ body }) => "password_hash" in body)).toHaveLength(1);
  });
});
