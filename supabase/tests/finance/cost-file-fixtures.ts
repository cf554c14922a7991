import { platformBookId } from "../../../remix-app/studio/costs/platform-book.ts";
import { createAdmin } from "../console/fixtures.ts";
import { type Database, one } from "../database.ts";
import { bindKey } from "../gateway/call-fixtures.ts";
import { createTenant } from "../gateway/fixtures.ts";

export type CostDay = {
  accountId: string;
  day: string;
  amounts: { currency: string; amount: string }[];
  parts?: unknown;
};
export type CostDocument = {
  provider: string;
  format: string;
  fileName: string;
  sha256: string;
  timeZone: string;
  rates: Record<string, string>;
  days: CostDay[];
  clear?: boolean;
  services?: string[];
  serviceCategories?: Record<string, string>;
};

/** Returns one day of a cost file, in USD. */
export const usd = (day: string, amount: string, accountId = "acct-1"): CostDay => ({
  accountId,
  day,
  amounts: [{ currency: "USD", amount }],
});

export const documentOf = (days: CostDay[], changes: Partial<CostDocument> = {}): CostDocument => ({
  provider: "openai",
  format: "openai-costs",
  fileName: "costs.json",
  sha256: "ab".repeat(32),
  timeZone: "UTC",
  rates: {},
  days,
  ...changes,
});

/** The answer of a preview or an import. Each test names the fields it expects. */
// biome-ignore lint/suspicious/noExplicitAny: answers are compared as a whole, and differ by their outcome
export type Answer = any;

async function call(db: Database, name: string, values: unknown[]): Promise<Answer> {
  const { answer } = await one<{ answer: Answer }>(db, {
    sql: `select ${name}(${values.map((_, n) => `$${n + 1}`).join(", ")}) as answer`,
    values: values.map((value) => (value !== null && typeof value === "object" ? JSON.stringify(value) : value)),
  });
  return answer;
}

/**
 * Creates a workspace and an app that may act in it. Returns helpers that call the database as the workspace's owner or
 * as the app.
 */
export async function createBook(db: Database) {
  const tenant = await createTenant(db);
  const { workspaceId, ownerId } = tenant;
  const { id: appId } = await bindKey(db, tenant);
  const member = [ownerId, workspaceId, appId];
  const service = (name: string, values: unknown[]) => db.asRole("service_role", () => call(db, name, values));
  return {
    ...tenant,
    appId,
    preview: (document: object): Promise<Answer> => service("ai.preview_cost_import", [...member, document]),
    importFile: (document: object, state?: string): Promise<Answer> =>
      service("ai.import_cost_file", [...member, document, state ?? null]),
    /** Previews a document, and imports it against the previewed state. */
    async importPreviewed(document: object): Promise<Answer> {
      const { state } = await service("ai.preview_cost_import", [...member, document]);
      return service("ai.import_cost_file", [...member, document, state]);
    },
    store: (record: object): Promise<Answer> =>
      call(db, "ai.store_provider_cost", [
        workspaceId,
        appId,
        { provider: "openai", accountId: "acct-1", observedAt: "2026-11-01T00:00:00Z", ...record },
      ]),
    list: (from = "2026-10-01T00:00:00Z", to = "2026-11-01T00:00:00Z", filter: object = {}): Promise<Answer> =>
      service("ai.list_provider_costs", [ownerId, workspaceId, from, to, null, 200, filter]),
  };
}

/** Creates an admin. Returns helpers that call the console's functions for the platform's costs in the admin's name. */
export async function createPlatformBook(db: Database) {
  const admin = await createAdmin(db);
  const member = [admin.id, platformBookId, platformBookId];
  const service = (name: string, values: unknown[]) => db.asRole("service_role", () => call(db, name, values));
  return {
    ...admin,
    preview: (document: object): Promise<Answer> => service("ai.preview_cost_import", [...member, document]),
    importFile: (document: object, state?: string): Promise<Answer> =>
      service("ai.import_cost_file", [...member, document, state ?? null, { reason: "test" }]),
  };
}

/** Calls a database function as the operator's command `scripts/operator/import-costs.ts` does. */
export const asOperator = (db: Database, name: string, values: unknown[]): Promise<Answer> =>
  db.asRole("service_role", () => call(db, `private.${name}_as_operator`, values));
