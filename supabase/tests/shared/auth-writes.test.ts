import { describe, expect } from "vitest";
import { createUser, type Database, one, test } from "../database.ts";

const policy = { version: 1, required: true, boundary: 5, primaryBoundary: null, recovery: "none", generation: 1 };

async function writeMetadata(db: Database, { id, metadata }: { id: string; metadata: unknown }): Promise<unknown> {
  const row = await one(db, {
    sql: "update auth.users set raw_app_meta_data = $2 where id = $1 returning raw_app_meta_data as metadata",
    values: [id, metadata === null ? null : JSON.stringify(metadata)],
  });
  return row.metadata;
}

describe("the stored MFA policy", () => {
  test.for([
    [
      "older metadata that lacks the policy",
      { provider: "email" },
      { provider: "email", platform_required_mfa: policy },
    ],
    ["another policy", { platform_required_mfa: { required: false } }, { platform_required_mfa: policy }],
    ["a null policy", { platform_required_mfa: null }, { platform_required_mfa: policy }],
    ["no metadata at all", null, { platform_required_mfa: policy }],
    ["metadata that is not an object", ["x"], { platform_required_mfa: policy }],
  ] as const)(
    "the stored MFA policy survives when the account's metadata is overwritten with %s",
    async ([, metadata, kept], { db }) => {
      const { id } = await createUser(db, { appMetadata: { platform_required_mfa: policy } });
      expect(await writeMetadata(db, { id, metadata })).toEqual(kept);
    },
  );

  test("a metadata write can't add an MFA policy", async ({ db }) => {
    const { id } = await createUser(db, { appMetadata: { provider: "email" } });
    const written = await writeMetadata(db, { id, metadata: { provider: "google", platform_required_mfa: policy } });
    expect(written).toEqual({ provider: "google" });
  });

  test("metadata writes can change everything except the MFA policy", async ({ db }) => {
    const { id } = await createUser(db, { appMetadata: { provider: "email", platform_required_mfa: policy } });
    const metadata = { provider: "google", providers: ["google"], platform_required_mfa: policy };
    expect(await writeMetadata(db, { id, metadata })).toEqual(metadata);
  });

  test("the function that writes MFA policies can change the stored policy, and later metadata writes keep the new policy", async ({
    db,
  }) => {
    const { id } = await createUser(db, { appMetadata: { platform_required_mfa: policy } });
    const next = { ...policy, generation: 2 };
    await db.query("select set_config('gatehouse.required_mfa_writer', 'on', true)");
    expect(await writeMetadata(db, { id, metadata: { platform_required_mfa: next } })).toEqual({
      platform_required_mfa: next,
    });
    await db.query("select set_config('gatehouse.required_mfa_writer', '', true)");
    expect(await writeMetadata(db, { id, metadata: {} })).toEqual({ platform_required_mfa: next });
  });
});
