import { expect, test } from "vitest";
import { newAccount } from "../support/accounts.ts";
import { sql } from "../support/database.ts";
import { admin, expectOk } from "../support/http.ts";

const put = (id: string, app_metadata: object) => admin(`PUT /admin/users/${id}`, { body: { app_metadata } });

test("a metadata update based on an outdated value overwrites a newer value without an error", async () => {
  const { id } = await newAccount({ app_metadata: { policy: { generation: 1 } } });
  expectOk(await put(id, { policy: { generation: 2 } }));
  expect(expectOk(await put(id, { policy: { generation: 1 } })).app_metadata.policy).toEqual({ generation: 1 });
});

test("a metadata update replaces a top-level key as a whole and keeps the keys that it does not name", async () => {
  const { id } = await newAccount({ app_metadata: { policy: { generation: 1, required: true }, other: 1 } });
  const { app_metadata } = expectOk(await put(id, { policy: { generation: 2 } }));
  expect(app_metadata).toMatchObject({ policy: { generation: 2 }, other: 1 });
  expect(app_metadata.policy).not.toHaveProperty("required");
});

test("metadata written by SQL appears in the next response", async () => {
  const { id } = await newAccount();
  await sql("update auth.users set raw_app_meta_data = raw_app_meta_data || '{\"policy\": 7}' where id = $1", [id]);
  expect(expectOk(await admin(`GET /admin/users/${id}`)).app_metadata).toMatchObject({ policy: 7, provider: "email" });
});
