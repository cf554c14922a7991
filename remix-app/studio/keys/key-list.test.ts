import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { KeyList } from "./key-list.tsx";
import type { KeySummary } from "./key-schema.ts";

const at = "2026-03-01T09:00:00Z";
const key: KeySummary = {
  id: "00000000-0000-4000-8000-000000000000",
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
  externalApp: { id: "00000000-0000-4000-8000-000000000001", name: "ספר חשבונות", enabled: true },
  requestsPerMinute: null,
  tokensPerMinute: null,
  budget: { limitUsd: "20", spentUsd: "16.4" },
};

test("names that are written from right to left turn no figure beside them around", () => {
  const shown = renderToStaticMarkup(createElement(KeyList, { keys: [key], mayRotate: true, here: "/keys", now: at }));
  expect(shown).toContain("<bdi>ייבוא</bdi>");
  expect(shown).toContain("<bdi>bound to ספר חשבונות</bdi> · <bdi>$16.40 of $20.00 this month</bdi>");
  expect(shown).toContain("strict mode");
  expect(shown).toContain("by <bdi>שרה לוי</bdi> ·");
});
