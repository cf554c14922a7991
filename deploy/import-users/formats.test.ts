import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { readAuth0Hash, readAuth0User } from "./auth0.ts";
import { clerkColumns, readClerkUser } from "./clerk.ts";
import { readFirebaseRow, readFirebaseUser, readHashParameters } from "./firebase.ts";
import { parseRecords } from "./import-users.ts";
import { readCsvRows } from "./read-records.ts";
import { createSourceUser, type SourceUser } from "./source-user.ts";

const folder = mkdtempSync(path.join(tmpdir(), "import-users-"));
afterAll(() => rmSync(folder, { recursive: true }));

const bcrypt = "$2b$10$Z6hUTEEeoJXN5/AmSm/4.eZ75RYgFVriQM9LPhNEC7kbAbS/VAaJ2";
const plain = {
  email: "ann@example.test",
  emailVerified: true,
  password: { hash: bcrypt },
  name: undefined,
  picture: undefined,
  disabled: false,
  omitted: [],
} satisfies Partial<SourceUser>;

/** Fields: auth0.com/docs/manage-users/user-accounts/user-profiles/user-profile-structure */
const auth0User = {
  user_id: "auth0|60425dc43519d90068f82973",
  email: "ann@example.test",
  email_verified: true,
  name: "ann@example.test",
  identities: [
    {
      user_id: "60425dc43519d90068f82973",
      provider: "auth0",
      connection: "Username-Password-Authentication",
      isSocial: false,
    },
  ],
};
/** Shape: zitadel.com/docs/guides/migrate/sources/auth0 */
const auth0Hash = {
  _id: { $oid: "60425dc43519d90068f82973" },
  email_verified: true,
  email: "ann@example.test",
  passwordHash: bcrypt,
  password_set_date: { $date: "2021-03-05T16:35:16.775Z" },
  tenant: "dev-tenant",
  connection: "Username-Password-Authentication",
  _tmp_is_unique: true,
};

const argon2Of = (costs: string) => `$argon2id$v=19$${costs}$c29tZXNhbHQ$aGFzaGhhc2g`;
const scryptOf = (costs: string) => `$fbscrypt$v=1,${costs},ss=Bw==,sk=a2V5$c2FsdA==$aGFzaA==`;

test.each([
  ["bcrypt", bcrypt.replace("$10$", "$14$"), bcrypt.replace("$10$", "$15$")],
  ["argon2 by memory", argon2Of("m=262144,t=4,p=1"), argon2Of("m=262145,t=1,p=1")],
  ["argon2 by work", argon2Of("m=65536,t=16,p=4"), argon2Of("m=65536,t=17,p=4")],
  ["scrypt by memory", scryptOf("n=14,r=8,p=1"), scryptOf("n=15,r=8,p=1")],
  ["scrypt by block size", scryptOf("n=14,r=8,p=1"), scryptOf("n=14,r=9,p=1")],
  ["scrypt by lanes", scryptOf("n=14,r=8,p=1"), scryptOf("n=14,r=8,p=2")],
])("takes a hash of %s with the highest cost, and no higher one", (_, affordable, expensive) => {
  const passwords = [affordable, expensive].map(
    (hash) => createSourceUser({ ...plain, sourceId: "one", hash }).password,
  );
  expect(passwords).toEqual([{ hash: affordable }, { missing: "unsupported_hash" }]);
});

describe("Auth0", () => {
  const hashes = new Map([[auth0User.user_id, bcrypt]]);
  const sourceId = auth0User.user_id;

  test.each<[string, object, Partial<SourceUser>]>([
    ["a database user, whose name is the email", {}, {}],
    [
      "a user without a hash",
      { user_id: "auth0|2", identities: [] },
      { sourceId: "auth0|2", password: { missing: "no_password" } },
    ],
    ["an unverified email", { email_verified: false }, { emailVerified: false }],
    ["an email of unknown state", { email_verified: undefined }, { emailVerified: false }],
    ["a blocked user", { blocked: true }, { disabled: true }],
    ["a name", { name: " Ann Lee " }, { name: "Ann Lee" }],
    ["two names", { name: undefined, given_name: "Ann", family_name: "Lee" }, { name: "Ann Lee" }],
    ["a name of another type", { name: 5 }, {}],
    ["a picture", { picture: "https://example.test/a.png" }, { picture: "https://example.test/a.png" }],
    ["a picture without TLS", { picture: "http://example.test/a.png" }, { omitted: ["picture"] }],
    ["a long picture", { picture: `https://example.test/${"a".repeat(1_024)}` }, { omitted: ["picture"] }],
    [
      "a social user with a linked database identity",
      { user_id: "google-oauth2|1", identities: [{ provider: "google-oauth2", user_id: 1 }, ...auth0User.identities] },
      { sourceId: "google-oauth2|1", omitted: ["identities"] },
    ],
    [
      "everything that is left out",
      { username: "ann", phone_number: "+1", multifactor: ["guardian"], user_metadata: { a: 1 }, app_metadata: {} },
      { omitted: ["metadata", "mfa", "phone", "username"] },
    ],
  ])("reads %s", (_, changes, expected) => {
    expect(readAuth0User({ ...auth0User, ...changes }, hashes)).toEqual({ ...plain, sourceId, ...expected });
  });

  test.each<[string, object, string]>([
    ["an object id", {}, sourceId],
    ["a text as id", { _id: "60425dc43519d90068f82973" }, sourceId],
    ["an id of its own", { alt_id: "euclid" }, "auth0|euclid"],
  ])("reads an exported hash with %s, by itself and for a user", (_, changes, id) => {
    const line = { ...auth0Hash, ...changes };
    expect(readAuth0Hash(line)).toEqual({ userId: id, hash: bcrypt });
    expect(readAuth0User(line, new Map())).toEqual({ ...plain, sourceId: id });
  });

  test.each<[object, string]>([
    [{ ...auth0User, email: null }, "the user has no email"],
    [{ ...auth0User, user_id: undefined }, "not as expected: user_id"],
    [{ ...auth0User, blocked: "yes", email_verified: 1 }, "not as expected: email_verified, blocked"],
    [{ ...auth0Hash, passwordHash: "" }, "not as expected: passwordHash"],
  ])("refuses %j", (record, message) => {
    expect(() => readAuth0User(record, hashes)).toThrow(message);
  });
});

describe("Clerk", () => {
  const row = {
    ...Object.fromEntries(clerkColumns.map((name) => [name, ""])),
    id: "user_1",
    primary_email_address: "ann@example.test",
    verified_email_addresses: "ann@example.test",
    password_digest: bcrypt,
    password_hasher: "bcrypt",
  };
  const unsupported = { password: { missing: "unsupported_hash" } } as const;
  const argon2 = "$argon2id$v=19$m=32,t=3,p=2$SFVpOWJ0eXhjRzVkdGN1RQ$RXnb8rh7LaDcn07xsssqqulZYXOM/EUCEFMVcAcyYVk";

  test.each<[string, object, Partial<SourceUser>]>([
    ["a user", { first_name: "Ann", last_name: "Lee" }, { name: "Ann Lee" }],
    ["an email that differs in case", { verified_email_addresses: "ANN@example.test" }, {}],
    [
      "an unverified email",
      { verified_email_addresses: "b@example.test", unverified_email_addresses: "ann@example.test" },
      { emailVerified: false, omitted: ["other_emails"] },
    ],
    ["no primary email", { primary_email_address: "" }, {}],
    ["argon2", { password_digest: argon2, password_hasher: "argon2id" }, { password: { hash: argon2 } }],
    [
      "Firebase's scrypt, of two segments more than its hash and salt",
      { password_digest: "aGFzaA==$c2FsdA==$a2V5$Bw==$8$14", password_hasher: "scrypt_firebase" },
      { password: { hash: "$fbscrypt$v=1,n=14,r=8,p=1,ss=Bw==,sk=a2V5$c2FsdA==$aGFzaA==" } },
    ],
    [
      "a damaged digest of Firebase's scrypt",
      { password_digest: "aGFzaA==", password_hasher: "scrypt_firebase" },
      unsupported,
    ],
    ["a hasher that only looks like bcrypt", { password_hasher: "bcrypt_peppered" }, unsupported],
    ["another hasher", { password_digest: "5f4dcc3b5aa765d61d8327deb882cf99", password_hasher: "md5" }, unsupported],
    ["a truncated hash", { password_digest: bcrypt.slice(0, -1) }, unsupported],
    ["no password", { password_digest: "", password_hasher: "" }, { password: { missing: "no_password" } }],
    [
      "everything that is left out",
      {
        username: "ann",
        totp_secret: "JBSWY3DP",
        verified_phone_numbers: "+1",
        unverified_email_addresses: "b@example.test",
      },
      { omitted: ["mfa", "other_emails", "phone", "username"] },
    ],
  ])("reads %s", (_, changes, expected) => {
    expect(readClerkUser({ ...row, ...changes })).toEqual({ ...plain, sourceId: "user_1", ...expected });
  });

  test("refuses a user without an email, and a row without an id", () => {
    const none = { primary_email_address: "", verified_email_addresses: "" };
    expect(() => readClerkUser({ ...row, ...none })).toThrow("the user has no email");
    expect(() => readClerkUser({ ...row, id: " " })).toThrow("not as expected: id");
  });
});

describe("Firebase", () => {
  // The hash, its salt and parameters: github.com/firebase/scrypt, README.
  const config = `hash_config {
  algorithm: SCRYPT,
  base64_signer_key: jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA==,
  base64_salt_separator: Bw==,
  rounds: 8,
  mem_cost: 14,
}`;
  const signerKey = "jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA==";
  const hash = "lSrfV15cpx95/sZS2W9c9Kp6i/LVgQNDNC/qzrCnh1SAyZvqmZqAjTdn3aoItz+VHjoZilo78198JAdRuid5lQ==";
  const salt = "42xEC+ixf3L2lw==";
  const parameters = readHashParameters(config);
  const user = { localId: "uid1", email: "ann@example.test", emailVerified: true, passwordHash: hash, salt };
  const whole = {
    ...plain,
    sourceId: "uid1",
    password: { hash: `$fbscrypt$v=1,n=14,r=8,p=1,ss=Bw==,sk=${signerKey}$${salt}$${hash}` },
  };

  test("reads the console's hash parameters, also as JSON, and refuses others without repeating the key", () => {
    const expected = { signerKey, saltSeparator: "Bw==", rounds: 8, memoryCost: 14 };
    expect(parameters).toEqual(expected);
    const json = {
      algorithm: "SCRYPT",
      base64_signer_key: signerKey,
      base64_salt_separator: "Bw==",
      rounds: 8,
      mem_cost: 14,
    };
    expect(readHashParameters(JSON.stringify(json))).toEqual(expected);
    const message = (text: string) => {
      try {
        return readHashParameters(text);
      } catch (error) {
        return String(error);
      }
    };
    expect(message(config.replace("rounds: 8", "rounds: 9"))).toMatch(/lack a usable rounds: copy/);
    expect(message(config.replace("mem_cost: 14", "mem_cost: 15"))).toMatch(/lack a usable mem_cost/);
    expect(message(config.replace("SCRYPT", "BCRYPT"))).toMatch(/lack a usable algorithm/);
    expect(message(config.replace("rounds: 8", ""))).not.toContain(signerKey);
  });

  test.each<[string, object, Partial<SourceUser>]>([
    [
      "a user",
      { displayName: "Ann Lee", photoUrl: "https://example.test/a" },
      { name: "Ann Lee", picture: "https://example.test/a" },
    ],
    [
      "base64 for URLs, without padding",
      { salt: "42xEC-ixf3L2lw", passwordHash: hash.replaceAll("+", "-").replaceAll("/", "_") },
      {},
    ],
    ["a user without a password", { passwordHash: undefined }, { password: { missing: "no_password" } }],
    ["a hash without a salt", { salt: undefined }, { password: { missing: "unsupported_hash" } }],
    ["a disabled user", { disabled: true }, { disabled: true }],
    ["an unverified email", { emailVerified: false }, { emailVerified: false }],
    [
      "everything that is left out",
      {
        phoneNumber: "+1",
        customAttributes: '{"admin":true}',
        providerUserInfo: [{ providerId: "google.com" }],
        mfaInfo: [{}],
      },
      { omitted: ["identities", "metadata", "mfa", "phone"] },
    ],
    ["empty claims", { customAttributes: "{}" }, {}],
  ])("reads %s", (_, changes, expected) => {
    expect(readFirebaseUser({ ...user, ...changes }, parameters)).toEqual({ ...whole, ...expected });
  });

  test("reads the CSV, which has no header and does not escape quotes", async () => {
    const cells = (changes: Record<number, string>) => {
      const row = Array(28).fill("");
      return `${Object.assign(row, { 0: "uid1", 1: user.email, 2: "true", 3: hash, 4: salt, 26: "false" }, changes).join(",")},`;
    };
    const file = path.join(folder, "users.csv");
    writeFileSync(
      file,
      [
        cells({ 5: 'Ann "Annie" Lee', 26: "true" }),
        cells({ 5: '"Lee, Ann"', 7: "google-id", 25: "+1", 27: '"{""admin"":true}"' }),
        cells({ 2: "maybe" }),
      ].join("\r\n"),
    );
    const users: [number, unknown][] = [];
    for await (const record of parseRecords(readCsvRows(file, {}), (row) =>
      readFirebaseRow(row as string[], parameters),
    )) {
      users.push([record.line, "fault" in record ? record.fault.message : record.value]);
    }
    expect(users).toEqual([
      [1, { ...whole, name: 'Ann "Annie" Lee', disabled: true }],
      [2, { ...whole, name: "Lee, Ann", omitted: ["identities", "metadata", "phone"] }],
      [3, "not as expected: emailVerified"],
    ]);
  });
});
