import { once } from "node:events";
import { copyFile, mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { withDatabase } from "@gatehousehq/local-stack/database";
import { createDataApi } from "@gatehousehq/local-stack/services/data-api/data-api";
import { superuser } from "@gatehousehq/local-stack/services/postgres/cluster";
import { getRequestListener } from "@hono/node-server";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { authSchemaFile, describeAuthTriggers, parseAuthTrigger } from "../database/contents/auth-triggers.ts";
import { readCheckout } from "../database/contents/checkout.ts";
import { type Checkout, compareContents, type Difference } from "../database/contents/differences.ts";
import { readContents } from "../database/contents/read-contents.ts";
import {
  expectedObjects,
  type ObjectChanges,
  type Objects,
  readManifest,
  readObjectChanges,
} from "../database/contents/releases.ts";
import { applyMigrations, listMigrations } from "../database/migrations.ts";
import { type ScratchCluster, startScratchCluster } from "../database/scratch-cluster.ts";
import type { Finding } from "../operator/doctor/finding.ts";
import { checkDatabase } from "../operator/doctor/project-checks.ts";
import { parseEnvironment } from "../start/environment.ts";
import { planHosted } from "../start/hosted.ts";
import { readOptions } from "../start/options.ts";
import { readStack } from "../test/stack.ts";
import { createProjects, grantNothingByDefault } from "./record-objects.ts";

const root = process.cwd();
const migrations = path.join(root, "supabase/migrations");
const files = (await listMigrations(migrations)).map(({ file }) => path.basename(file));
const mfa = "20260923130000_required_account_mfa.sql";
const invoices = "20260907110000_external_provider_invoices.sql";
const costs = "20260906100000_external_provider_costs.sql";
const unreleased = files.filter((file) => file > mfa).map((file) => file.slice(0, 14));
/** Migrations that come after the optional migrations and depend on tables that the optional migrations create. */
const later = files.filter((file) => file > mfa);

let cluster: ScratchCluster;
const newest = (await readManifest(process.cwd())).releases.at(-1);
let own: Checkout;
let migrated: string;
let copies = 0;
const folders: string[] = [];

beforeAll(async () => {
  cluster = await startScratchCluster();
  migrated = await cluster.createDatabase({ migrated: true });
  own = await readCheckout(root, await readContents({ url: "", secretKey: "", dbUrl: migrated }));
}, 120_000);
afterAll(async () => {
  await cluster.stop();
  for (const folder of folders) await rm(folder, { recursive: true });
});

/**
 * Copies the migrated database and runs `sql` in the copy. The schema auth belongs to Supabase Auth, so the default
 * role cannot change it.
 */
async function changed(sql: string, role = "postgres"): Promise<string> {
  copies += 1;
  const name = `changed_${copies}`;
  const at = (database: string) => Object.assign(new URL(migrated), { pathname: `/${database}` }).href;
  await withDatabase(at("template1"), (client) =>
    client.query(`create database ${name} template ${new URL(migrated).pathname.slice(1)}`),
  );
  await withDatabase(Object.assign(new URL(at(name)), { username: role }).href, (client) => client.query(sql));
  return at(name);
}

/** Creates a database with the migrations that `keep` selects. */
async function partly(keep: (file: string) => boolean): Promise<string> {
  const directory = await mkdtemp(path.join(tmpdir(), "gatehouse-part-"));
  folders.push(directory);
  for (const file of files.filter(keep)) await copyFile(path.join(migrations, file), path.join(directory, file));
  const dbUrl = await cluster.createDatabase();
  await applyMigrations({ dbUrl, directory });
  return dbUrl;
}

const short = (differences: readonly Difference[]) => differences.map(({ level, says }) => `${level} ${says}`);
const ask = async (dbUrl: string, checkout = own) =>
  short(compareContents(await readContents({ url: "", secretKey: "", dbUrl }), checkout));

/** Queries a database through its own Data API. */
async function askDataApi(dbUrl: string, checkout = own): Promise<string[]> {
  const databaseUrl = Object.assign(new URL(dbUrl), { username: "authenticator" }).href;
  const api = createDataApi({ databaseUrl, schemas: ["public", "private", "ai"] });
  const caller = { kind: "secret", claims: { role: "service_role" } } as const;
  const server = createServer(
    getRequestListener((request) => api.handle(request, { url: new URL(request.url), caller }), {
      overrideGlobalObjects: false,
    }),
  );
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  try {
    const project = { url: `http://127.0.0.1:${port}`, secretKey: "secret", dbUrl: undefined };
    return short(compareContents(await readContents(project), checkout));
  } finally {
    server.closeAllConnections();
    server.close();
    await api.close();
  }
}

describe("supabase/releases/objects.json matches the released migrations", () => {
  test("objects.json has an entry for every released migration since the first one that it lists", async () => {
    const recorded = Object.keys(await readObjectChanges(root));
    const { releases } = await readManifest(root);
    const versions = Object.keys(releases.at(-1)?.migrations ?? {}).map((file) => file.slice(0, 14));
    expect(recorded).toEqual(versions.slice(versions.indexOf(recorded[0] ?? "")));
  });

  test("objects.json matches the database after each release, and the checkout's record the newest migration", async () => {
    const { releases } = await readManifest(root);
    const all = await listMigrations(migrations);
    const lastVersions = releases.map(({ migrations: released }) => Object.keys(released).sort().at(-1)?.slice(0, 14));
    const projects = await createProjects(cluster);
    try {
      let applied = 0;
      for (const last of new Set([...lastVersions, all.at(-1)?.version])) {
        const next = all.findIndex(({ version }) => version === last) + 1;
        const objects = await projects.migrate(all.slice(applied, next).map(({ file }) => file));
        applied = next;
        const versions = new Set(all.slice(0, next).map(({ version }) => version));
        expect(objects).toEqual(foldChanges(own.changes, versions));
      }
    } finally {
      await projects.close();
    }
  }, 60_000);
});

/** Returns the objects recorded for the migrations of these versions, and nothing else. */
function foldChanges(changes: ObjectChanges, versions: ReadonlySet<string>): Objects {
  return expectedObjects(
    Object.fromEntries(Object.entries(changes).filter(([version]) => versions.has(version))),
    versions,
  );
}

test("finds no difference in a freshly migrated database", async () => {
  expect(await ask(migrated)).toEqual([]);
});

const threeChanges = `
  create or replace function private.set_updated_at() returns trigger language plpgsql as $$ begin return new; end $$;
  drop policy account_required_mfa on public.profiles;
  create trigger extra before update on public.workspaces for each row execute function private.set_updated_at()`;
const threeNamed = [
  "fail changed by hand: function private.set_updated_at()",
  "fail dropped: policy account_required_mfa on public.profiles",
  "fail extra: trigger extra on public.workspaces",
];

const changes: [what: string, sql: string, says: string[]][] = [
  [
    "a function changed by hand",
    `create or replace function private.set_updated_at() returns trigger language plpgsql volatile set search_path = ''
     as $$ begin new.updated_at := pg_catalog.clock_timestamp(); return new; end $$`,
    ["fail changed by hand: function private.set_updated_at()"],
  ],
  [
    "a function that became a definer",
    "alter function private.set_updated_at() security definer",
    ["fail changed by hand: function private.set_updated_at()"],
  ],
  [
    "a dropped function",
    "drop function private.list_infrastructure_admins()",
    ["fail dropped: function private.list_infrastructure_admins()"],
  ],
  [
    "an extra overload",
    "create function private.set_updated_at(at integer) returns integer language sql stable as 'select at'",
    ["fail extra: function private.set_updated_at(integer)"],
  ],
  [
    "a dropped policy",
    "drop policy account_required_mfa on public.profiles",
    ["fail dropped: policy account_required_mfa on public.profiles"],
  ],
  [
    "a changed policy",
    "alter policy select_own on public.profiles using (true)",
    ["fail changed by hand: policy select_own on public.profiles"],
  ],
  [
    "an extra policy",
    "create policy everyone on public.profiles for select to anon using (true)",
    ["fail extra: policy everyone on public.profiles"],
  ],
  [
    "an extra trigger",
    "create trigger extra before update on public.workspaces for each row execute function private.set_updated_at()",
    ["fail extra: trigger extra on public.workspaces"],
  ],
  [
    "an extra trigger on a table of Supabase Auth",
    "create trigger extra after insert on auth.users for each row execute function private.create_profile_and_workspace()",
    ["fail extra: trigger extra on auth.users"],
  ],
  [
    "a disabled trigger",
    "alter table public.profiles disable trigger set_updated_at",
    ["fail changed by hand: trigger set_updated_at on public.profiles"],
  ],
  [
    "disabled row-level security",
    "alter table ai.keys disable row level security",
    ["fail dropped: row-level security on ai.keys"],
  ],
  [
    "disabled row-level security on a partition",
    "alter table ai.runs_default disable row level security",
    ["fail changed by hand: partitions of ai.runs"],
  ],
  [
    "grants to users",
    "grant select on ai.keys to anon; grant update (kind) on public.security_events to authenticated",
    [
      "fail extra: grant select on table ai.keys to anon",
      "fail extra: grant update (kind) on table public.security_events to authenticated",
    ],
  ],
  [
    "a grant to everyone",
    "grant execute on function private.set_updated_at() to public",
    ["fail extra: grant execute on function private.set_updated_at() to public"],
  ],
  [
    "a grant that allows truncating a log",
    "grant truncate on public.security_events to service_role",
    ["fail extra: grant truncate on table public.security_events to service_role"],
  ],
  [
    "a grant option",
    "grant select on public.profiles to authenticated with grant option",
    [
      "fail dropped: grant select on table public.profiles to authenticated",
      "fail extra: grant select on table public.profiles to authenticated with grant option",
    ],
  ],
  [
    "revoked grants",
    `revoke select on public.profiles from authenticated; revoke insert on public.profiles from service_role;
     revoke execute on function ai.begin_runs(jsonb) from gateway`,
    [
      "fail dropped: grant execute on function ai.begin_runs(jsonb) to gateway",
      "fail dropped: grant insert on table public.profiles to service_role",
      "fail dropped: grant select on table public.profiles to authenticated",
    ],
  ],
  [
    "an extra table and an extra view, each named once",
    "create table public.extra (id integer primary key); create view public.extras as select id from public.extra",
    ["fail extra: table public.extra", "fail extra: view public.extras"],
  ],
  [
    "a changed default and a dropped column",
    "alter table public.profiles alter created_at set default '2026-01-01Z'; alter table public.profiles drop avatar_url",
    [
      "fail changed by hand: column public.profiles.created_at",
      "fail dropped: column public.profiles.avatar_url",
      "fail dropped: constraint profiles_avatar_url_check on public.profiles",
      "fail dropped: grant update (avatar_url) on table public.profiles to authenticated",
    ],
  ],
  [
    "a dropped and a changed constraint",
    `alter table ai.keys drop constraint keys_name_check;
     alter table private.verified_addresses drop constraint verified_addresses_pair_check,
       add constraint verified_addresses_pair_check check (true)`,
    [
      "fail changed by hand: constraint verified_addresses_pair_check on private.verified_addresses",
      "fail dropped: constraint keys_name_check on ai.keys",
    ],
  ],
  [
    "a dropped unique index",
    "drop index ai.credit_ledger_one_entry_a_run",
    ["fail dropped: unique index ai.credit_ledger_one_entry_a_run"],
  ],
];

const harmless: [what: string, sql: string][] = [
  [
    "whitespace and comments in a function",
    `create or replace function private.set_updated_at() returns trigger language plpgsql volatile set search_path = ''
     as $$ begin -- The time of the change.\r\n\tnew.updated_at:=pg_catalog.now( ) ;\r\n  return  new;\nend $$`,
  ],
  ["partitions for later months", "select ai.create_run_partitions(30)"],
  ["an index", "create index on ai.runs_default (model_id)"],
  [
    "objects of hosted Supabase and of other schemas",
    `create schema storage; create table storage.objects (id integer); grant all on storage.objects to anon;
     create function public.rls_auto_enable() returns event_trigger language plpgsql as $$ begin end $$;
     create extension unaccent with schema public; grant all on all tables in schema ai to postgres`,
  ],
  [
    "settings of the database that change how definitions are printed",
    `do $$ begin
       execute format('alter database %I set search_path = ai, private, public', current_database());
       execute format('alter database %I set quote_all_identifiers = on', current_database());
       execute format('alter database %I set timezone = ''Asia/Tokyo''', current_database());
       execute format('alter database %I set intervalstyle = ''iso_8601''', current_database());
     end $$`,
  ],
];

describe("comparison of a database with a release, through the database's URL", () => {
  test.for(changes)("the schema check with a database URL reports %s", async ([, sql, says]) => {
    expect(await ask(await changed(sql))).toEqual(says);
  });

  test.for(harmless)("the schema check over the database's URL ignores %s", async ([, sql]) => {
    expect(await ask(await changed(sql))).toEqual([]);
  });
});

/** Matches a trigger's name and table in the file that defines the triggers on Supabase Auth's tables. */
const triggerStatement = /^create or replace trigger (\w+)\s[^;]*?\son (auth\.\w+)\s[^;]*;/gm;
const statements = [...(await readFile(path.join(root, authSchemaFile), "utf8")).matchAll(triggerStatement)];

describe("Triggers on Supabase Auth's tables", () => {
  const list = async (sql: string) => {
    const contents = await readContents({ url: "", secretKey: "", dbUrl: await changed(sql, superuser) });
    return describeAuthTriggers(contents, own.changes);
  };

  test.for([
    [
      "that were dropped",
      "drop trigger record_sign_outs on auth.sessions",
      ["fail dropped: trigger record_sign_outs on auth.sessions"],
    ],
    [
      "that are disabled",
      "alter table auth.sessions disable trigger record_sign_outs",
      ["fail disabled: trigger record_sign_outs on auth.sessions"],
    ],
    [
      "on a table that this version of Supabase Auth lacks, as a warning",
      "drop table auth.webauthn_credentials cascade",
      [
        "warn no table for trigger record_passkey_added on auth.webauthn_credentials",
        "warn no table for trigger record_passkey_removed on auth.webauthn_credentials",
        "warn no table for trigger record_passkey_renamed on auth.webauthn_credentials",
      ],
    ],
  ] satisfies [string, string, string[]][])(
    "the schema check reports our Supabase Auth triggers %s",
    async ([, sql, says]) => {
      expect(await ask(await changed(sql, superuser))).toEqual(says);
    },
  );

  test("the triggers expected on Supabase Auth's tables match supabase/schemas/auth-schema.sql", async () => {
    const { changes } = own;
    const names = Object.keys(expectedObjects(changes, new Set(Object.keys(changes)))).filter(parseAuthTrigger);
    expect(statements.map(([, name, table]) => `trigger ${name} on ${table}`).sort()).toEqual(names.sort());
  });

  test("lists our triggers by table, and other triggers with the functions that they run", async () => {
    const found = await list(`
      alter table auth.sessions disable trigger record_sign_outs;
      create schema crm;
      create function crm.sync() returns trigger language plpgsql as 'begin return null; end';
      create trigger sync after insert on auth.users for each row execute function crm.sync()`);
    const own = Map.groupBy(statements, ([, , table = ""]) => table);
    expect(found).toEqual([
      ...[...own.keys()].sort().map((table) => {
        const names = (own.get(table) ?? []).map(([, name = ""]) => name).sort();
        const isDisabled = table === "auth.sessions";
        return {
          level: isDisabled ? "warn" : "ok",
          says: `${table}: ${names.join(", ")}${isDisabled ? " (disabled)" : ""}`,
        };
      }),
      { level: "ok", says: "not ours: sync on auth.users, which runs crm.sync" },
    ]);
  });

  test("reports a trigger that a missing migration would create", async () => {
    const { migrations, auth } = await readContents({ url: "", secretKey: "", dbUrl: migrated });
    const { changes } = own;
    const last = Object.keys(changes).find(
      (version) => "trigger record_sign_in on auth.mfa_amr_claims" in (changes[version] ?? {}),
    );
    const before = {
      migrations: migrations.filter((version) => version !== last),
      auth: {
        tables: auth?.tables ?? [],
        triggers: auth?.triggers.filter(({ name }) => name !== "record_sign_in") ?? [],
      },
    };
    expect(describeAuthTriggers(before, changes)).toContainEqual({
      level: "warn",
      says: "missing: record_sign_in on auth.mfa_amr_claims. Apply the migrations.",
    });
  });

  test("reports Auth triggers at level unseen if an older database lacks describe_auth_triggers", async () => {
    expect(await list("drop function private.describe_auth_triggers() cascade")).toMatchObject([{ level: "unseen" }]);
  });

  test("the statement that creates a trigger also re-enables the trigger if it was disabled", async () => {
    const [statement] = statements.find(([, name]) => name === "record_sign_outs") ?? [];
    const sql = `alter table auth.sessions disable trigger record_sign_outs; ${statement}`;
    expect(await ask(await changed(sql, superuser))).toEqual([]);
  });
});

/** Returns this checkout with an additional migration, which changes a function, as if all others were released. */
function laterCheckout(): Checkout {
  const file = path.join(migrations, "20990101000000_later.sql");
  const later = { "20990101000000": { "function private.set_updated_at()": "0123456789abcdef" } };
  return {
    migrations: [...own.migrations, { version: "20990101000000", name: "later", file }],
    changes: { ...own.changes, ...later },
    manifest: { merged: [], releases: own.manifest.releases.slice(0, 1) },
  };
}

const record = (version: string) =>
  `insert into supabase_migrations.schema_migrations (version) values ('${version}');`;
const forget = (...versions: string[]) =>
  `delete from supabase_migrations.schema_migrations where version in (${versions.map((v) => `'${v}'`).join()});`;

/**
 * Database states and the findings that the comparison reports for them, both through the URL and through the Data API.
 */
const states: [what: string, make: () => Promise<string>, says: string[]][] = [
  [
    "a missing last migration",
    () => partly((file) => file < mfa),
    [
      "fail older than 0.1.0: the database lacks migrations of it",
      ...[mfa, ...later].map((file) => `fail missing: migration ${file}`),
    ],
  ],
  [
    "a missing optional migration before a later one",
    () => partly((file) => file <= mfa && file !== invoices),
    [
      "fail older than 0.1.0: the database lacks migrations of it",
      ...[invoices, ...later].map((file) => `fail missing: migration ${file}`),
    ],
  ],
  [
    "the absence of all optional migrations",
    () => partly((file) => file <= mfa && ![costs, invoices, mfa].includes(file)),
    [
      "fail older than 0.1.0: the database lacks migrations of it",
      ...[costs, invoices, mfa, ...later].map((file) => `fail missing: migration ${file}`),
    ],
  ],
  [
    "a database from before 0.1.0",
    () =>
      changed(
        "drop function private.describe_database(), private.describe_objects(), private.describe_auth_triggers()",
      ),
    ["fail older than 0.1.0: the database cannot describe itself"],
  ],
  [
    "a newer database, whose objects may differ",
    () => changed(`${record("20990101000000")} drop function private.list_infrastructure_admins()`),
    [`warn newer release: migration 20990101000000 came after ${newest?.version} and this checkout`],
  ],
  [
    "an unknown earlier migration",
    () => changed(record("20260815000000")),
    ["warn extra: migration 20260815000000 is recorded and has no file here"],
  ],
  [
    "the history of unreleased migrations that were merged since, and a change by hand",
    () =>
      changed(
        `${forget(...unreleased)} ${record("20261127090000")} ${record("20261127090500")} drop policy select_own on public.profiles`,
      ),
    [
      "fail unreleased: migrations 20261127090000, 20261127090500 were merged into other files after they had been applied",
      "fail dropped: policy select_own on public.profiles",
    ],
  ],
  [
    "lost migration records",
    () => changed(forget(...files.map((file) => file.slice(0, 14)))),
    [
      "fail older than 0.1.0: the database lacks migrations of it",
      ...files.map((file) => `fail missing: migration ${file}`),
    ],
  ],
  ["a function changed by hand, a dropped policy and an extra trigger", () => changed(threeChanges), threeNamed],
  [
    "a project that grants nothing by default",
    async () => {
      const dbUrl = await cluster.createDatabase();
      await withDatabase(dbUrl, (client) => client.query(grantNothingByDefault));
      await applyMigrations({ dbUrl, directory: migrations });
      return dbUrl;
    },
    [],
  ],
];

describe("Comparison of a database with a release, through the database's URL and the Data API", () => {
  test.for(states)(
    "comparing a database through its URL or the Data API reports the same differences: %s",
    async ([, make, says]) => {
      const dbUrl = await make();
      expect(await ask(dbUrl)).toEqual(says);
      expect(await askDataApi(dbUrl)).toEqual(says);
    },
  );

  test("reports both an older release and a manual change in one database", async () => {
    const [dbUrl, checkout] = [await changed("drop policy select_own on public.profiles"), laterCheckout()];
    const says = [
      "fail older release: the database is of 0.1.0",
      "fail missing: migration 20990101000000_later.sql",
      "fail dropped: policy select_own on public.profiles",
    ];
    expect(await ask(dbUrl, checkout)).toEqual(says);
    expect(await askDataApi(dbUrl, checkout)).toEqual(says);
  });

  test("names the grant that the Data API lacks", async () => {
    const dbUrl = await changed("revoke execute on function private.describe_database() from service_role");
    await expect(askDataApi(dbUrl)).rejects.toThrow("grant execute on function private.describe_database()");
    expect(await ask(dbUrl)).toEqual([
      "fail dropped: grant execute on function private.describe_database() to service_role",
    ]);
  });

  test("does not let users or the gateway call private.describe_database()", async () => {
    await withDatabase(migrated, async (client) => {
      for (const role of ["anon", "authenticated", "gateway"]) {
        await client.query(`begin; set local role ${role}`);
        await expect(client.query("select private.describe_database()")).rejects.toThrow("permission denied");
        await client.query("rollback");
      }
    });
  });
});

describe("database differences, reported by the doctor and when the stack starts with a hosted database", () => {
  test("the doctor reports a hosted database's differences, and the stack names them and refuses to start with that database", async () => {
    const { supabase } = readStack();
    const dbUrl = await changed(threeChanges);
    const settings = {
      SUPABASE_URL: supabase.url,
      SUPABASE_PUBLISHABLE_KEY: supabase.publishableKey,
      SUPABASE_SECRET_KEY: supabase.secretKey,
    };
    const withoutTriggers = (findings: Finding[]) => findings.filter(({ about }) => about === "database");
    const found = withoutTriggers(await checkDatabase({ dbUrl }));
    expect(found.map(({ level, says }) => `${level} ${says.replace(/\. .*/, "")}`)).toEqual(threeNamed);
    expect(withoutTriggers(await checkDatabase({ dbUrl: migrated }))).toMatchObject([
      { level: "ok", about: "database" },
    ]);

    const start = (url: string) =>
      planHosted(
        {
          root,
          options: readOptions(["--dev"]),
          environment: parseEnvironment({ ...settings, SUPABASE_DB_URL: url }),
          terminal: process.stdout,
          onGiveUp: () => undefined,
        },
        {} as Parameters<typeof planHosted>[1],
      );
    await expect(start(dbUrl)).rejects.toThrow("dropped: policy account_required_mfa on public.profiles");
    await expect(start(migrated)).resolves.toHaveProperty("plan");
  });
});
