import { spawnSync } from "node:child_process";
import { createReadStream, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { withDatabase } from "@gatehousehq/local-stack/database";
import { messageOf } from "@gatehousehq/local-stack/errors";
import type pg from "pg";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { type ScratchCluster, startScratchCluster } from "../../scripts/database/scratch-cluster.ts";
import { loadRuns } from "../../scripts/load/load-runs.ts";
import { createLoadTenant } from "../../scripts/load/load-tenant.ts";
import { createPerson, insertAuthenticators, signIn } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { readArchive, writeArchive } from "./archive.ts";
import { backUp } from "./backup.ts";
import { listTables, readFigures } from "./figures.ts";
import type { Manifest } from "./manifest.ts";
import { findPrograms } from "./programs.ts";
import { restore } from "./restore.ts";

vi.setConfig({ testTimeout: 120_000, hookTimeout: 240_000 });

const folder = process.env.POSTGRES_BIN || undefined;
const missing = faultOf(() => findPrograms(["pg_dump", "pg_restore", "psql"], folder));
if (missing) console.warn(`No backup was restored. ${missing}`);

function faultOf(work: () => unknown): string | undefined {
  try {
    work();
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}

const files = mkdtempSync(path.join(tmpdir(), "gatehouse-backup-"));
const fileOf = (name: string) => path.join(files, name);
const { ai, supabase, aiKey } = readStack();
const day = new Date(Date.now() - 86_400_000).toISOString().slice(0, 10);
const yesterday = { day, partition: `ai.refused_calls_${day.replaceAll("-", "_")}` };
let cluster: ScratchCluster;
/** A database like that of a new Supabase project. */
let empty: string;

beforeAll(async () => {
  cluster = await startScratchCluster();
  empty = await cluster.createDatabase();
});
afterAll(async () => {
  await cluster?.stop();
  rmSync(files, { recursive: true, force: true });
});

/** Returns whether migrations were applied, and the tables of accounts and runs that have rows. */
async function stateOf(dbUrl: string): Promise<{ isMigrated: boolean; filled: string[] }> {
  return withDatabase(dbUrl, async (client) => {
    const { rows } = await client.query("select to_regnamespace('ai') is not null as migrated");
    const filled: string[] = [];
    for (const table of ["auth.users", ...(rows[0].migrated ? ["ai.runs", "public.workspaces"] : [])]) {
      if ((await client.query(`select from ${table} limit 1`)).rowCount) filled.push(table);
    }
    return { isMigrated: rows[0].migrated, filled };
  });
}

/** Returns a hash of all rows of each table, and the next value of each sequence. */
async function contentsOf(dbUrl: string): Promise<Record<string, string>> {
  return withDatabase(dbUrl, async (client) => {
    const contents: Record<string, string> = {};
    for (const table of await listTables(client)) {
      const { rows } = await client.query(
        `select sum(hashtextextended(t::text, 0)::numeric)::text as hash from ${table} as t`,
      );
      contents[table] = rows[0].hash;
    }
    const { rows } = await client.query(
      `select format('%I.%I', schemaname, sequencename) as name, last_value::text as value
       from pg_sequences where schemaname in ('auth', 'private', 'public', 'ai')`,
    );
    for (const { name, value } of rows) contents[name] = value;
    return contents;
  });
}

/** Lets people sign in, adds an authenticator, buys credits, and runs models in earlier months and now. */
async function useStack(): Promise<void> {
  const [ada, bob] = await Promise.all([createPerson(), createPerson()]);
  await insertAuthenticators(ada, ["Phone"]);
  await Promise.all([signIn(ada), signIn(bob), signIn(bob)]);
  await withDatabase(supabase.dbUrl, async (client) => {
    const tenant = await createLoadTenant(client);
    await loadRuns(client, { tenant, runs: 600, days: 70 });
    await insertRefusedCall(client);
  });
  await callModel();
}

/** Inserts a refused call of yesterday into a partition, which a migrated database does not have. */
async function insertRefusedCall(client: pg.Client): Promise<void> {
  await client.query(
    `create table if not exists ${yesterday.partition} partition of ai.refused_calls
     for values from ('${yesterday.day} 00:00:00+00') to ('${yesterday.day} 24:00:00+00');
     select ai.protect_partition('${yesterday.partition}');
     insert into ai.refused_calls
       (id, created_at, workspace_id, credential_source, request_id, endpoint, http_status, error_code)
     values (gen_random_uuid(), '${yesterday.day} 12:00:00+00', gen_random_uuid(), 'key', 'r', '/', 404, 'model_not_found')`,
  );
}

async function callModel(): Promise<void> {
  const response = await fetch(`${ai}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${aiKey}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "demo-chat", messages: [{ role: "user", content: "Hello" }] }),
  });
  expect(response.status, await response.text()).toBe(200);
}

if (!missing)
  describe("with Postgres's programs", () => {
    let manifest: Manifest;
    let restored: string;
    const archive = fileOf("stack.tar");

    beforeAll(async () => {
      await useStack();
      // Calls continue during the backup, so counts of another moment than the dump would differ.
      let isDone = false;
      const callUntilDone = async () => {
        while (!isDone) await callModel();
      };
      const backup = backUp({ file: archive, dbUrl: supabase.dbUrl, folder }).finally(() => {
        isDone = true;
      });
      [manifest] = await Promise.all([backup, callUntilDone(), callUntilDone()]);
      restored = await cluster.createDatabase();
    });

    /** Writes an archive with the same dump and another manifest, and with correct checksums. */
    async function withManifest(name: string, change: Partial<Record<keyof Manifest, unknown>>): Promise<string> {
      const { manifest: text, dump } = await readArchive(archive);
      const describe = async () => JSON.stringify({ ...JSON.parse(text), ...change });
      const stream = createReadStream(archive, { start: dump.start, end: dump.end - 1 });
      await writeArchive(fileOf(name), { dump: stream, describe, createdAt: new Date() });
      return fileOf(name);
    }

    function damaged(name: string, damage: (content: Buffer) => Buffer): string {
      writeFileSync(fileOf(name), damage(readFileSync(archive)));
      return fileOf(name);
    }

    const refusals: [string, () => string | Promise<string>, string][] = [
      [
        "an archive that was cut off",
        () => damaged("cut.tar", (all) => all.subarray(0, all.length / 2)),
        "is not a whole backup",
      ],
      [
        "an archive with a flipped byte",
        () => damaged("flipped.tar", (all) => all.fill((all[9_000] ?? 0) ^ 0x10, 9_000, 9_001)),
        "is not a whole backup: its contents differ from SHA256SUMS",
      ],
      [
        "an archive without a manifest",
        async () => {
          const { dump } = await readArchive(archive);
          return damaged("dump-only.tar", (all) => all.subarray(0, dump.end));
        },
        "is not a whole backup",
      ],
      [
        "a file that is not an archive",
        () => damaged("text.tar", () => Buffer.from("select 1;")),
        "is not a whole backup",
      ],
      ["an archive of another format", () => withManifest("format.tar", { format: 2 }), "has another format"],
      [
        "an archive of a later release",
        () => withManifest("later.tar", { product: "9.0.0", migrations: [...manifest.migrations, "29990101000000"] }),
        "The archive is of a later release (9.0.0)",
      ],
      [
        "an archive of an earlier release",
        () => withManifest("earlier.tar", { product: "0.1.0", migrations: manifest.migrations.slice(0, 3) }),
        "The archive is of an earlier release (0.1.0)",
      ],
      [
        "an archive of another Postgres",
        () => withManifest("server.tar", { postgres: 160_004 }),
        "server is Postgres 16",
      ],
    ];
    test.each(refusals)("refuses %s, and changes nothing", async (_, prepare, message) => {
      const file = await prepare();
      await expect(restore({ file, dbUrl: empty, folder })).rejects.toThrow(message);
      expect(await stateOf(empty)).toEqual({ isMigrated: false, filled: [] });
    });

    test("restores a used stack into a new database, with equal rows, books and doctor", async () => {
      const { doctor } = await restore({ file: archive, dbUrl: restored, folder });
      expect(doctor).toEqual(manifest.doctor);
      expect(doctor.filter(({ level }) => level === "fail")).toEqual([]);
      const figures = await withDatabase(restored, async (client) => readFigures(client, await listTables(client)));
      expect(figures).toEqual(manifest.figures);
      for (const name of ["rows of auth.sessions", "rows of auth.mfa_factors", "rows of ai.runs", "books: ledger"]) {
        expect(Number(figures[name]), name).toBeGreaterThan(0);
      }
      await withDatabase(restored, async (client) => {
        expect((await client.query(`select from ${yesterday.partition}`)).rowCount).toBe(1);
        await client.query("select ai.delete_expired()");
        expect((await client.query("select ai.sweep_runs() as ended, ai.roll_up_usage(1) as days")).rowCount).toBe(1);
      });
    });

    test("a backup of the restored database has the same bytes in every column, and the same sequences", async () => {
      const second = fileOf("second.tar");
      const again = await cluster.createDatabase({ migrated: true });
      await backUp({ file: second, dbUrl: restored, folder });
      await restore({ file: second, dbUrl: again, folder });
      expect(await contentsOf(again)).toEqual(await contentsOf(restored));
    });

    test("runs of an earlier month get the partition that they had", async () => {
      const target = await cluster.createDatabase({ migrated: true });
      const [month] = await withDatabase(restored, async (client) => {
        const { rows } = await client.query<{ name: string; from: string; until: string }>(
          `select 'ai.runs_' || to_char(m, 'YYYY_MM') as name, m::date || ' 00:00:00+00' as from,
           (m + interval '1 month')::date || ' 00:00:00+00' as until
         from (select date_trunc('month', min(created_at) at time zone 'UTC') as m from ai.runs_default) as t`,
        );
        return rows;
      });
      if (!month) throw new Error("no runs");
      const bounds = `FOR VALUES FROM ('${month.from}') TO ('${month.until}')`;
      const partition = { name: month.name, parent: "ai.runs", bounds, options: "fillfactor=45" };
      const file = await withManifest("months.tar", { partitions: [...manifest.partitions, partition] });
      const { doctor } = await restore({ file, dbUrl: target, folder });
      expect(doctor).toEqual(manifest.doctor);
      const rows = (dbUrl: string, sql: string) =>
        withDatabase(dbUrl, async (client) => (await client.query(sql)).rowCount);
      const moved = await rows(target, `select from ${month.name}`);
      expect(moved).toBeGreaterThan(0);
      expect(await rows(target, "select from ai.runs_default")).toBe(
        Number(await rows(restored, "select from ai.runs_default")) - Number(moved),
      );
    });

    test("tar and pg_restore read an archive without the command", () => {
      spawnSync("tar", ["-xf", archive, "database.dump"], { cwd: files });
      const { pg_restore } = findPrograms(["pg_restore"], folder);
      const { stdout } = spawnSync(pg_restore, ["--list", fileOf("database.dump")], { encoding: "utf8" });
      for (const entry of [
        "TABLE ai runs ",
        "TABLE DATA ai runs_default ",
        "TABLE DATA auth users ",
        "SEQUENCE SET auth ",
      ])
        expect(stdout).toContain(entry);
      expect(stdout).not.toContain("auth schema_migrations");
    });

    test("refuses a database that has rows", async () => {
      const before = await contentsOf(restored);
      await expect(restore({ file: archive, dbUrl: restored, folder })).rejects.toThrow(
        "The database is not empty: ai.",
      );
      expect(await contentsOf(restored)).toEqual(before);
    });

    test("a load whose books differ from the archive is rolled back, and can be repeated", async () => {
      const target = await cluster.createDatabase();
      const balance = `${manifest.figures["books: balance"]}1`;
      const file = await withManifest("books.tar", { figures: { ...manifest.figures, "books: balance": balance } });
      await expect(restore({ file, dbUrl: target, folder })).rejects.toThrow(
        `books: balance: ${balance} in the archive`,
      );
      expect(await stateOf(target)).toEqual({ isMigrated: true, filled: [] });
      await restore({ file: archive, dbUrl: target, folder });
      expect((await stateOf(target)).filled).toContain("ai.runs");
    });

    test("a manifest with correct checksums cannot make psql run a command", async () => {
      const marker = fileOf("marker");
      const end = "is null then null; end if; end";
      const partition = {
        name: `ai."'||chr(120)||chr(34)) ${end} $partitions$;\n\\! touch ${marker}\n"`,
        parent: "ai.runs",
        bounds: "FOR VALUES FROM ('2020-01-01 00:00:00+00') TO ('2020-02-01 00:00:00+00')",
        options: null,
      };
      const target = await cluster.createDatabase({ migrated: true });
      const file = await withManifest("injection.tar", { partitions: [partition] });
      await restore({ file, dbUrl: target, folder });
      expect(existsSync(marker)).toBe(false);
    });

    test("refuses a database without Supabase Auth, and a backup of a database without migrations", async () => {
      const plain = new URL(empty);
      plain.pathname = "/plain";
      await withDatabase(empty, (client) => client.query("create database plain template template0"));
      await expect(restore({ file: archive, dbUrl: plain.href, folder })).rejects.toThrow(
        "Supabase Auth has not created",
      );
      const file = fileOf("unmigrated.tar");
      await expect(backUp({ file, dbUrl: empty, folder })).rejects.toThrow("The database is of an earlier release");
      expect(existsSync(file)).toBe(false);
    });

    test("the command writes and restores an archive without showing the password", async () => {
      const target = await cluster.createDatabase({ migrated: true });
      const run = (dbUrl: string, ...args: string[]) => {
        const env = { ...process.env, SUPABASE_DB_URL: dbUrl };
        const { status, stdout, stderr } = spawnSync(process.execPath, ["scripts/gatehouse.ts", ...args], {
          env,
          encoding: "utf8",
        });
        expect(stdout + stderr).not.toContain(new URL(dbUrl).password);
        // Other tests of this stack change balances without a ledger entry.
        const findings = /^FAIL {2}books.*\n/gm;
        return { status, hasFindings: findings.test(stderr), stdout, stderr: stderr.replaceAll(findings, "") };
      };
      const file = fileOf("command.tar");
      const backup = run(restored, "backup", "--out", file);
      expect(backup).toEqual({
        status: Number(backup.hasFindings),
        hasFindings: expect.any(Boolean),
        stdout: expect.stringContaining(`Wrote ${file}: `),
        stderr: "",
      });
      expect(run(target, "restore", file)).toMatchObject({
        status: 0,
        stdout: expect.stringContaining("The doctor says the same about the database."),
        stderr: "",
      });
      expect(run(target, "restore", file)).toMatchObject({
        status: 1,
        stderr: expect.stringContaining("is not empty"),
      });
    });

    test("a database with tables and columns of its own can be backed up and restored", async () => {
      const column = "alter table ai.plans add column own integer";
      await withDatabase(restored, (client) =>
        client.query(
          `create table public."it""s own" (id serial primary key, other integer generated always as identity);
         create table public.parted (day date) partition by range (day);
         create table public.parted_default partition of public.parted default;
         create sequence public.own_numbers;
         insert into public."it""s own" default values; insert into public.parted values (now());
         ${column}; update ai.plans set own = 1`,
        ),
      );
      const file = fileOf("own.tar");
      const { excluded } = await backUp({ file, dbUrl: restored, folder });
      expect(excluded).toEqual([
        'public."it""s own"',
        'public."it""s own_id_seq"',
        'public."it""s own_other_seq"',
        "public.own_numbers",
        "public.parted",
      ]);
      const target = await cluster.createDatabase({ migrated: true });
      await expect(restore({ file, dbUrl: target, folder })).rejects.toThrow('column "own" of relation "plans"');
      await withDatabase(target, (client) => client.query(column));
      await restore({ file, dbUrl: target, folder });
      expect((await stateOf(target)).filled).toContain("ai.runs");
    });
  });

describe("programs", () => {
  /** Returns a folder of programs that only state their version. */
  function programsOf(version: string | undefined): string {
    const bin = fileOf(`bin-${version}`);
    mkdirSync(bin, { recursive: true });
    for (const name of ["pg_dump", "pg_restore", "psql"]) {
      if (version)
        writeFileSync(path.join(bin, name), `#!/bin/sh\necho "${name} (PostgreSQL) ${version}"\n`, { mode: 0o755 });
    }
    return bin;
  }

  test.each([
    ["15.18", "is of Postgres 15"],
    ["18.1", "is of Postgres 18"],
    [undefined, "cannot be run"],
  ])("of version %s are refused before anything is read or written", async (version, message) => {
    const bin = programsOf(version);
    const file = fileOf("none.tar");
    await expect(backUp({ file, dbUrl: supabase.dbUrl, folder: bin })).rejects.toThrow(message);
    expect(existsSync(file)).toBe(false);
    const refusal = restore({ file, dbUrl: empty, folder: bin });
    await expect(refusal).rejects.toThrow("package postgresql-client-17");
    await expect(refusal).rejects.toThrow("Nothing was changed.");
    expect(await stateOf(empty)).toEqual({ isMigrated: false, filled: [] });
  });
});
