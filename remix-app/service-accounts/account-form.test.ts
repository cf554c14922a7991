import { describe, expect, test } from "vitest";
import { workspaceScopes } from "../machines/scopes.ts";
import { parseAccountChange, parseNewAccount } from "./account-form.ts";
import type { ServiceAccount } from "./service-accounts.ts";

const dayMs = 86_400_000;
const inDays = (days: number) => new Date(Date.now() + days * dayMs).toISOString().slice(0, 10);

const workspaceId = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";
const workspace = { workspaceId, label: "Lab", path: "/x", scopes: workspaceScopes };
const platform = { ...workspace, workspaceId: null, scopes: ["admin:books"] };

const account: ServiceAccount = {
  id: "3f2504e0-4f89-41d3-9a0c-0305e82c3302",
  clientId: "svc_3f2504e0-4f89-41d3-9a0c-0305e82c3302",
  name: "Import",
  scopes: ["use_ai_studio"],
  allowedAddresses: [],
  enabled: true,
  state: "expired",
  createdAt: "2026-01-01T00:00:00+00:00",
  createdBy: null,
  expiresAt: "2026-06-30T23:59:59.000000Z",
  lastUsedAt: null,
  lastUsedIp: null,
  credentials: [],
  version: "v",
};

function formOf(fields: Record<string, string>): FormData {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.set(name, value);
  return form;
}

const filled = { name: " Import ", scope_use_ai_studio: "on", expiresOn: inDays(30), credential: "secret" };

describe("the form of a service account", () => {
  test("has the ticked scopes, addresses by line, and the end of the last day", () => {
    const addresses = "192.0.2.0/24\n 2001:db8::1 \n192.0.2.0/24";
    const parsed = parseNewAccount(formOf({ ...filled, allowedAddresses: addresses }), workspace);
    expect(parsed.data).toMatchObject({
      name: "Import",
      scopes: ["use_ai_studio"],
      allowedAddresses: ["192.0.2.0/24", "2001:db8::1"],
      expiresAt: `${inDays(30)}T23:59:59Z`,
      reason: "",
    });
  });

  test("ignores scopes that the person may not give, and fields that it doesn’t have", () => {
    const forged = { ...filled, scope_admin_books: "on", scopes: "admin:books", actor: "x", enabled: "on", id: "x" };
    const parsed = parseNewAccount(formOf(forged), workspace);
    expect(parsed.data?.scopes).toEqual(["use_ai_studio"]);
    expect(Object.keys(parsed.data ?? {}).sort()).toEqual(
      ["allowedAddresses", "credential", "expiresAt", "name", "publicKey", "reason", "scopes"].sort(),
    );
  });

  test("requires a reason for the platform’s service accounts only", () => {
    const fields = { ...filled, scope_admin_books: "on" };
    expect(parseNewAccount(formOf(fields), platform).success).toBe(false);
    expect(parseNewAccount(formOf({ ...fields, reason: "Ticket 7" }), platform).data?.reason).toBe("Ticket 7");
  });

  test.each([
    [-1, false],
    [0, true],
    [365, true],
    [367, false],
  ])("with a last day in %i days is accepted: %s", (days, accepted) => {
    expect(parseNewAccount(formOf({ ...filled, expiresOn: inDays(days) }), workspace).success).toBe(accepted);
  });

  test("keeps the exact expiry if the day stays the same, even after it", () => {
    const form = formOf({ ...filled, version: "v", expiresOn: "2026-06-30" });
    const parsed = parseAccountChange(form, { owner: workspace, account, step: "edit" });
    expect(parsed.data).toMatchObject({ step: "edit", version: "v", expiresAt: account.expiresAt });
  });

  test("changes only what its page is for, even if the form names another step", () => {
    const form = formOf({ ...filled, step: "revoke", version: "v" });
    expect(parseAccountChange(form, { owner: workspace, account, step: "disable" }).data).toEqual({
      step: "disable",
      version: "v",
      reason: "",
    });
  });
});
