import { execFile } from "node:child_process";
import { argon2Sync, createCipheriv, randomBytes, scryptSync } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { hashSync } from "@node-rs/bcrypt";
import { createClient } from "@supabase/supabase-js";
import { afterAll, expect, test } from "vitest";
import { createPerson, deletePerson, query, signIn } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { clerkColumns } from "./clerk.ts";
import type { Provider } from "./source-user.ts";

const { supabase } = readStack();
const folder = mkdtempSync(path.join(tmpdir(), "import-users-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** How many users of each format are imported and sign in. IMPORTED_USERS=1000 rehearses a real import. */
const userCount = Number(process.env.IMPORTED_USERS || 20);
const isRehearsal = userCount > 20;
const concurrentSignIns = 5;
const run = randomBytes(4).toString("hex");

type Person = { id: string; email: string; password: string; verified: boolean; disabled: boolean };

const signerKey = randomBytes(64).toString("base64");
const cheapMemoryCost = 4;

/** Runs `npm run gatehouse -- import-users …` and returns its output and exit code. */
async function importUsers(argv: string[]) {
  const env = {
    NODE_ENV: "production",
    PATH: process.env.PATH,
    SUPABASE_URL: supabase.url,
    SUPABASE_SECRET_KEY: supabase.secretKey,
  } as const;
  try {
    const line = ["scripts/gatehouse.ts", "import-users", ...argv];
    return { code: 0, ...(await promisify(execFile)(process.execPath, line, { env })) };
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
    return { code, stdout, stderr };
  }
}

function bcryptOf({ password }: Person): string {
  return hashSync(password, { cost: 4, version: "2b" });
}

function argon2Of({ password }: Person): string {
  const salt = randomBytes(16);
  const parameters = { message: password, nonce: salt, memory: 64, passes: 1, parallelism: 1, tagLength: 32 };
  const [saltText, hashText] = [salt, argon2Sync("argon2id", parameters)].map((bytes) =>
    bytes.toString("base64").replaceAll("=", ""),
  );
  return `$argon2id$v=19$m=64,t=1,p=1$${saltText}$${hashText}`;
}

function firebaseHashOf({ password }: Person): { passwordHash: string; salt: string } {
  const salt = randomBytes(10);
  const options = { N: 2 ** cheapMemoryCost, r: 8, p: 1 };
  const key = scryptSync(password, Buffer.concat([salt, Buffer.from("Bw==", "base64")]), 32, options);
  const cipher = createCipheriv("aes-256-ctr", key, Buffer.alloc(16));
  const passwordHash = cipher.update(Buffer.from(signerKey, "base64")).toString("base64");
  return { passwordHash, salt: salt.toString("base64") };
}

function write(name: string, text: string): string {
  const file = path.join(folder, name);
  writeFileSync(file, text);
  return file;
}

/** Writes an export of people, as the provider does, and returns the command's arguments for it. */
const exportsOf: Record<Provider, (people: Person[]) => string[]> = {
  auth0(people) {
    const users = people.map(({ id, email, verified, disabled }) => ({
      user_id: `auth0|${id}`,
      email,
      email_verified: verified,
      blocked: disabled,
      name: "Ann Lee",
      app_metadata: { platform_required_mfa: { required: true } },
    }));
    const hashes = people.map((person) => ({
      _id: { $oid: person.id },
      email: person.email,
      email_verified: person.verified,
      passwordHash: bcryptOf(person),
    }));
    const lines = (values: object[]) => values.map((value) => `${JSON.stringify(value)}\n`).join("");
    return [write("users.json", lines(users)), "--hashes", write("hashes.json", lines(hashes))];
  },
  clerk(people) {
    const rows = people.map((person, index) => {
      const hash = index % 2 === 0 ? bcryptOf(person) : argon2Of(person);
      const row: Record<string, string> = {
        id: person.id,
        first_name: "Ann",
        last_name: "Lee",
        primary_email_address: person.email,
        [person.verified ? "verified_email_addresses" : "unverified_email_addresses"]: person.email,
        password_digest: hash,
        password_hasher: index % 2 === 0 ? "bcrypt" : "argon2id",
      };
      return clerkColumns.map((column) => (row[column] ? `"${row[column]}"` : "")).join(",");
    });
    return [write("users.csv", [clerkColumns.join(","), ...rows].join("\n"))];
  },
  firebase(people) {
    const users = people.map((person) => ({
      localId: person.id,
      email: person.email,
      emailVerified: person.verified,
      disabled: person.disabled,
      displayName: "Ann Lee",
      ...firebaseHashOf(person),
    }));
    const config = `hash_config {
  algorithm: SCRYPT,
  base64_signer_key: ${signerKey},
  base64_salt_separator: Bw==,
  rounds: 8,
  mem_cost: ${cheapMemoryCost},
}`;
    return [
      write("firebase.json", JSON.stringify({ users }, null, 2)),
      ...["--hash-config", write("hash-config.txt", config)],
    ];
  },
};

/** Signs in by a direct call, and returns the error's code, or undefined. */
async function signInCode({ email, password }: Pick<Person, "email" | "password">) {
  const { auth } = createClient(supabase.url, supabase.publishableKey, { auth: { persistSession: false } });
  const { error } = await auth.signInWithPassword({ email, password });
  return error?.code;
}

async function signInCodes(people: Person[]): Promise<(string | undefined)[]> {
  const codes = new Map<Person, string | undefined>();
  const waiting = people.values();
  await Promise.all(
    Array.from({ length: concurrentSignIns }, async () => {
      for (const person of waiting) codes.set(person, await signInCode(person));
    }),
  );
  return people.map((person) => codes.get(person));
}

/** Returns the stored accounts with all that the import writes. */
const storedAccounts = (emails: string[]) =>
  query<{ email: string; content: string }>(
    `select u.email, md5(u::text || p::text || i.all_identities) as content
     from auth.users u
     join public.profiles p on p.id = u.id
     cross join lateral (
       select coalesce(string_agg(i::text, '' order by i.id), '') as all_identities
       from auth.identities i where i.user_id = u.id
     ) i
     where u.email = any ($1) order by u.email`,
    [emails],
  );

test.each<Provider>(["auth0", "clerk", "firebase"])(
  "imports users of %s, who sign in with their old passwords, and changes nothing the second time",
  async (provider) => {
    const person = (name: string, changes: Partial<Person> = {}): Person => ({
      id: `${run}${name}`,
      email: `${provider}-${name}-${run}@import.gatehouse.test`,
      password: `old password ${name}`,
      verified: true,
      disabled: false,
      ...changes,
    });
    const people = Array.from({ length: userCount }, (_, index) => person(`u${index}`));
    const unverified = person("unverified", { verified: false });
    const disabled = person("disabled", { disabled: true });
    const owner = await createPerson();
    const rival = person("rival", { email: owner.email });
    const hasFlag = provider !== "clerk";
    const imported = [...people, unverified, ...(hasFlag ? [disabled] : [])];
    const emails = imported.map(({ email }) => email);
    const ownerBefore = await storedAccounts([owner.email]);
    const argv = exportsOf[provider]([...imported, rival]);
    const importOnce = async (name: string) => {
      const report = path.join(folder, `${provider}-${name}.jsonl`);
      const ended = await importUsers(["--from", provider, ...argv, "--report", report]);
      const text = readFileSync(report, "utf8");
      for (const secret of ["$2b$", "$argon2", "$fbscrypt", signerKey, supabase.secretKey]) {
        expect(ended.stdout + ended.stderr + text).not.toContain(secret);
      }
      return {
        ...ended,
        report: text
          .trim()
          .split("\n")
          .map((line) => JSON.parse(line)),
      };
    };

    try {
      const first = await importOnce("first");
      expect(first.stdout).toContain(`${imported.length} created, 0 imported earlier, 1 not taken.`);
      expect(first.code).toBe(1);
      expect(first.report.find(({ outcome }) => outcome === "not_taken")).toMatchObject({
        source_id: expect.stringContaining(rival.id),
        email: owner.email,
        reason: "email_taken",
      });
      expect(await storedAccounts([owner.email])).toEqual(ownerBefore);

      const ids = first.report.flatMap(({ user_id }) => user_id ?? []);
      const accounts = await query(
        `select p.display_name as name, w.name as workspace, count(*)::integer as accounts,
           array(select jsonb_object_keys(u.raw_app_meta_data) order by 1) as app_metadata
         from auth.users u
         join public.profiles p on p.id = u.id
         join public.workspaces w on w.personal_user_id = u.id
         where u.id = any ($1) group by 1, 2, 4`,
        [ids],
      );
      expect(accounts).toEqual([
        {
          name: "Ann Lee",
          workspace: "Ann Lee's workspace",
          accounts: imported.length,
          app_metadata: ["imported_from", "provider", "providers"],
        },
      ]);
      expect(await query("select kind from public.security_events where user_id = any ($1)", [ids])).toEqual([]);
      expect(await query("select id from private.outgoing_mails where recipient = any ($1)", [emails])).toEqual([]);

      const before = await storedAccounts(emails);
      const second = await importOnce("second");
      expect(second.stdout).toContain(`0 created, ${imported.length} imported earlier, 1 not taken.`);
      expect(await storedAccounts(emails)).toEqual(before);
      expect(before).toHaveLength(imported.length);

      expect((await signInCodes(people)).filter((code) => code !== undefined)).toEqual([]);
      expect(await signInCode({ email: emails[0] ?? "", password: "another" })).toBe("invalid_credentials");
      expect(await signInCode(unverified)).toBe("email_not_confirmed");
      if (hasFlag) expect(await signInCode(disabled)).toBe("user_banned");
      const [page] = people;
      if (page) expect((await signIn(page)).location).toBe("/");
    } finally {
      await query("delete from auth.users where email = any ($1)", [emails]);
      await deletePerson(owner);
    }
  },
  isRehearsal ? 1_200_000 : 60_000,
);
