import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { KeyList } from "./key-list.tsx";
import type { KeySummary } from "./key-schema.ts";

const at = "2026-03-01T09:00:00Z";
const key: KeySummary = {
  id: "00000000-0000-4000-8000-000000000000",
  lineageId: "00000000-0000-4000-8000-000000000000",
  version: "1",
  name: "ייבוא",
  prefix: "ttr_ai_abc",
  environment: "production",
  createdAt: at,
  createdBy: "שרה לוי",
  lastUsedAt: null,
  expiresAt: null,
  revokedAt: at,
  replacedBy: null,
  state: "revoked",
  allowedModels: null,
  allowedAddresses: null,
  strict: true,
  entityId: null,
  agent: null,
  externalApp: { id: "00000000-0000-4000-8000-000000000001", name: "ספר חשבונות", enabled: true },
  requestsPerMinute: null,
  tokensPerMinute: null,
  spentThisMonthUsd: "17.1234567",
  budget: { limitUsd: "20", spentUsd: "16.4" },
};

const show = (shown: KeySummary, replaced: KeySummary[] = []) =>
  renderToStaticMarkup(
    createElement(KeyList, { keys: [{ ...shown, replaced }], mayRotate: true, path: "/keys", page: "" }),
  );

test("the key list shows a key's spend this month next to its budget, with the exact amount on hover", () => {
  expect(show(key)).toContain('title="$16.40"');
  expect(show(key)).toContain(" of $20.00");
  expect(show({ ...key, budget: null })).toContain('title="$17.1234567"');
  expect(show({ ...key, budget: null, spentThisMonthUsd: null })).toContain("not shown");
});

test("names in a right-to-left script do not reverse the figures next to them", () => {
  const shown = show(key);
  expect(shown).toContain('<bdi class="text-muted">ייבוא</bdi>');
  expect(shown).toContain("<bdi>for the app ספר חשבונות</bdi> · ");
  expect(shown).toContain("strict mode");
  expect(shown).toContain("by <bdi>שרה לוי</bdi>");
});

test("replaced keys are folded below the key that works, and unfolded while one still works", () => {
  const active: KeySummary = { ...key, state: "active", revokedAt: null };
  const replaced: KeySummary = { ...key, prefix: "ttr_ai_old", spentThisMonthUsd: null };
  expect(show(active)).not.toContain("<details");
  const folded = show(active, [replaced, replaced]);
  expect(folded).toContain("2 replaced keys");
  expect(folded).not.toContain("<details open");
  const unfolded = show(active, [{ ...replaced, state: "replaced", revokedAt: null, expiresAt: at }]);
  expect(unfolded).toContain("<details open");
  expect(unfolded).toContain("Revoke the replaced key ttr_ai_old");
});

test.each([
  ["active", "good", "Active", true],
  ["expired", "over", "Sign-in or access ended", false],
  ["expired", "mfa_required", "Needs a second factor", true],
  ["expired", "unavailable", "Sign-in can’t be checked", true],
  ["revoked", "over", "Revoked", false],
] as const)("a coding agent that is %s with the status %s is shown as %s", (state, status, words, revocable) => {
  const agent = { tool: "claude", host: "laptop", status, endsAt: null, envelope: null } as const;
  const shown = show({ ...key, state, agent });
  expect(shown).toContain(`>${words}</span>`);
  expect(shown.includes("Revoke ")).toBe(revocable);
  expect(shown).not.toContain("Rotate");
  expect(shown).not.toContain("/edit");
});

test("the key list links to the task limit of a coding agent, without an amount if the workspace hides costs", () => {
  const envelope = {
    id: "00000000-0000-4000-8000-000000000002",
    state: "open",
    limitUsd: "5",
    spentUsd: "1.25",
    reservedUsd: "0",
    maxCalls: 200,
    calls: 12,
    endsAt: at,
  } as const;
  const agent = { tool: "claude", host: "ann-laptop", status: "good", endsAt: at, envelope } as const;
  const active: KeySummary = { ...key, state: "active", revokedAt: null, agent };
  expect(show(active)).toMatch(
    /href="\/envelopes\/00000000-0000-4000-8000-000000000002"[^>]*>Task limit: \$1\.25 of \$5\.00 spent</,
  );
  const hidden = { ...envelope, limitUsd: null, spentUsd: null, reservedUsd: null };
  expect(show({ ...active, agent: { ...agent, envelope: hidden } })).toContain(">Task limit<");
  const ended = { ...envelope, state: "ended" } as const;
  expect(show({ ...active, agent: { ...agent, envelope: ended } })).toContain("spent (stopped)<");
  expect(show({ ...active, agent: { ...agent, envelope: null } })).not.toContain("Task limit");
});
