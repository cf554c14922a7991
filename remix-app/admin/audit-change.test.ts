import { describe, expect, test } from "vitest";
import { listChanges } from "./audit-change.ts";
import { summarizeChange } from "./audit-summary.ts";

const price = {
  id: "7",
  model_id: "gpt-4o",
  provider_id: "openai",
  service_tier: "default",
  min_input_tokens: "0",
  valid: '["2026-11-01 00:00:00+00","2026-11-30 10:00:00+00")',
  input_usd_per_million: "2.500000",
  cached_input_usd_per_million: null,
  output_usd_per_million: "10.000000",
  as_offered: { input: "2.5" },
};
const newPrice = {
  ...price,
  id: "8",
  valid: '["2026-11-30 10:00:00+00",)',
  input_usd_per_million: "123456789012.123456",
  cached_input_usd_per_million: "1.250000",
};
const route = { provider_id: "azure", provider_model: "gpt-4o", position: "1", enabled: true };

/** Returns the changes as text, a line each. */
const linesOf = (before: unknown, after: unknown) =>
  listChanges({ before, after }).map(({ label, from, to }) => `${label}: ${from ?? "–"} → ${to ?? "–"}`);

describe("the changed fields of an entry", () => {
  test.for([
    ["nothing recorded", null, undefined, []],
    ["equal states", { enabled: true, markup: "1" }, { enabled: true, markup: "1" }, []],
    ["a field that is empty in both", { voices: null }, { voices: [] }, []],
    ["a switch", { enabled: true }, { enabled: false }, ["Enabled: yes → no"]],
    [
      "a price, exactly",
      price,
      newPrice,
      [
        "ID: 7 → 8",
        "Valid: from 1 Nov 2026, 00:00 UTC until 30 Nov 2026, 10:00 UTC → from 30 Nov 2026, 10:00 UTC",
        "Input: $2.50 → $123,456,789,012.123456",
        "Cached input: none → $1.25",
      ],
    ],
    ["a number", { requests_per_minute: null }, { requests_per_minute: "1200" }, ["Requests per minute: none → 1,200"]],
    [
      "a number without its trailing zeros",
      { markup: "1.000000", initial_credits: "100.00000000" },
      { markup: "1.200000", initial_credits: "0.50000000" },
      ["Markup: 1 → 1.2", "Initial credits: 100 → 0.5"],
    ],
    ["a reference of digits", {}, { reference: "4711000" }, ["Reference: – → 4711000"]],
    ["lists", { scopes: ["profile"] }, { scopes: ["profile", "ai:use"] }, ["Scopes: profile → profile, ai:use"]],
    [
      "lists of objects",
      { workspaces: [], secrets: [] },
      {
        workspaces: [{ id: "1", name: "Northwind" }],
        secrets: [{ createdAt: "2026-11-30T10:00:00Z", expiresAt: null }],
      },
      ["Workspaces: none → Northwind", "Secrets: none → created 30 Nov 2026, 10:00 UTC"],
    ],
    [
      "multipliers",
      { tier_multipliers: {} },
      { tier_multipliers: { flex: 0.5 } },
      ["Tier multipliers: none → flex 0.5"],
    ],
    ["an unknown field", { merged_into: "a" }, { merged_into: "b" }, ["merged_into: a → b"]],
    ["a state that is no object", "unreadable", { required: true }, ["value: unreadable → –", "required: – → yes"]],
    ["a deleted record", { kind: "chat" }, null, ["kind: chat → –"]],
  ] as const)("lists %s", ([, before, after, lines]) => {
    expect(linesOf(before, after)).toEqual(lines);
  });

  test("never shows a secret or its hash, at any depth", () => {
    const after = { secret_hash: "s1", secretHash: "s2", password: "s3", keys: [{ token: "s4", id: "key-1" }] };
    const shown = JSON.stringify(listChanges({ before: null, after }));
    expect(shown).toContain("key-1");
    for (const secret of ["s1", "s2", "s3", "s4"]) expect(shown).not.toContain(secret);
  });

  test("cuts long values and long lists of fields", () => {
    const long = "x".repeat(5_000);
    const [change] = listChanges({ before: { note: long }, after: { note: `y${long}` } });
    expect([change?.from?.length, change?.to?.endsWith("…")]).toEqual([250, true]);
    const many = Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`field_${index}`, long]));
    const changes = listChanges({ before: null, after: many });
    expect([changes.length, changes[0]?.to?.length, changes[30]?.label]).toEqual([31, 40, "70 more"]);
  });
});

test.for([
  [
    "credits.grant",
    { balance: "10000" },
    { balance: "60000", credits: "50000", reference: "INV-7", description: null },
    "50,000 credits, balance 10,000 → 60,000, reference INV-7",
  ],
  [
    "credits.withdraw",
    { balance: "60000" },
    { balance: "59999.5", credits: "-0.5", reference: "INV-8" },
    "0.5 credits, balance 60,000 → 59,999.5, reference INV-8",
  ],
  ["plan.move_workspace", { plan: "free" }, { plan: "pro" }, "free → pro"],
  ["plan.edit", { name: "Pro", markup: "1.000000" }, { name: "Pro", markup: "1.200000" }, "Markup 1 → 1.2"],
  [
    "provider.limit",
    { requests_per_minute: null, tokens_per_minute: "1000" },
    { requests_per_minute: "60", tokens_per_minute: "200000" },
    "Requests per minute none → 60; Tokens per minute 1,000 → 200,000",
  ],
  [
    "app.edit",
    { a: "1", b: "1", c: "1", d: "1", e: "1" },
    { a: "2", b: "2", c: "2", d: "2", e: "2" },
    "a 1 → 2; b 1 → 2; c 1 → 2; and 2 more changes",
  ],
  [
    "app.edit",
    { scopes: ["profile"], logoutUrl: null },
    { scopes: ["profile", "ai:use"], logoutUrl: "https://harbour.example/logout" },
    "Scopes profile → profile, ai:use; Logout URL changed",
  ],
  // Entries of the command line have no earlier state.
  ["app.edit", null, { name: "notes", display_name: "Notes" }, null],
  ["model.add_price", null, price, "openai, input $2.50, output $10.00"],
  ["model.add_price", price, newPrice, "openai, input $2.50 → $123,456,789,012.123456, cached input none → $1.25"],
  [
    "model.cancel_price",
    { ...price, service_tier: "flex", min_input_tokens: "200000" },
    price,
    "openai flex tier from 200,000 tokens, input $2.50, output $10.00",
  ],
  ["model.add_route", null, route, "azure gpt-4o"],
  ["model.edit_route", route, { ...route, position: "2" }, "azure gpt-4o, Order 1 → 2"],
  ["model.remove_route", route, null, "azure gpt-4o"],
  ["model.grant", { plan: "pro", granted: false }, { plan: "pro", granted: true }, "plan pro"],
  ["model.enable", { enabled: false }, { enabled: true }, null],
  [
    "books.record_invoice",
    null,
    { amountUsd: "1234.5", issuedOn: "2026-11-03", reference: "INV-7", provider: "openai" },
    "$1,234.50, issued on 3 Nov 2026",
  ],
  [
    "books.record_invoice",
    null,
    { amountUsd: "500", totalAmount: "477.4", currency: "EUR", issuedOn: "2026-11-03", replaces: "INV-6" },
    "477.40 EUR, issued on 3 Nov 2026, replaces INV-6",
  ],
  ["books.attach_document", null, { fileName: "INV-7.pdf", sha256: "ab" }, "INV-7.pdf"],
  ["books.close_month", null, { statement: "1", exceptions: [{ reason: "a" }] }, "1 exception"],
  [
    "costs.import",
    null,
    { file: "usage.csv", added: "3", corrected: "1", cleared: "0" },
    "usage.csv, 3 days added, 1 day corrected",
  ],
  ["account.sign_out", { sessions: "3" }, { sessions: "0" }, "3 sessions"],
  [
    "address_block.lift",
    { level: "2", blockedUntil: "2026-12-01T09:30:00+00:00" },
    { blockedUntil: null },
    "level 2, blocked until 1 Dec 2026, 09:30 UTC",
  ],
  ["recovery.create", null, { expires_at: "2026-12-07T10:00:00Z" }, "until 7 Dec 2026, 10:00 UTC"],
  [
    "recovery.create",
    null,
    { expires_at: "2026-12-07T10:00:00Z", single_use: true },
    "until first used, until 7 Dec 2026, 10:00 UTC",
  ],
  ["model.merge", { enabled: false }, { enabled: true }, null],
  ["credits.grant", null, "unreadable", null],
] as const)("summarizes %s (%#)", ([action, before, after, summary]) => {
  expect(summarizeChange({ action, before, after })).toBe(summary);
});
