import { z } from "zod";
import { type ConsoleRefusal, reasonSchema } from "../../admin/console-change.ts";
import { costSources } from "../../books/importer/cost-sources.ts";
import { FailedReport } from "../../books/importer/request-page.ts";
import { readBookDay } from "../../books/matching/book-day.ts";
import { fetchGenerations } from "../../books/matching/fetch-generations.ts";
import {
  comparedHours,
  compareHours,
  markGatewayKey,
  readChosenLine,
  requestHours,
} from "../../books/matching/hours.ts";
import { matchingOf } from "../../books/matching/matching.ts";
import { comparisonSchema, readGenerations } from "../../books/matching/read-generations.ts";
import { explainedMonthSchema, explainPlatformMonth, readBookMonth } from "../../books/platform-month.ts";
import { checklistSchema, closeMonth, readCloseChecklist } from "../../books/statements/close-month.ts";
import {
  listStatements,
  reopenMonth,
  requireStatement,
  statementSchema,
  summarySchema,
} from "../../books/statements/statement.ts";
import { problem } from "../../http/problem.ts";
import { monthPattern } from "../../studio/costs/month.ts";
import { reconciledMonth } from "../../studio/costs/provider-import-schema.ts";
import { openPointKinds } from "../../studio/costs/reconciliation.ts";
import { type AdminCall, changeBody, defineAct, defineRead, reasonOnly, recordedChange } from "../define.ts";
import { bookMember } from "./books.ts";

/** Returns the month of a path. @throws Response 404 */
function requireMonth({ context, param }: AdminCall): string {
  if (monthPattern.test(param("month"))) return param("month");
  throw problem("NOT_FOUND", { requestId: context.requestId });
}

/**
 * Returns the day of a path, and the provider that can be asked about it.
 * @throws Response 404
 */
function requireDay({ context, param }: AdminCall, { matching }: { matching: "hours" | "generations" }) {
  const day = param("day");
  const provider = matching === "generations" ? "openrouter" : param("provider");
  const read = readBookDay({ month: day.slice(0, 7), provider, day }, context);
  if (read.matching === matching) return read;
  throw problem("NOT_FOUND", { requestId: context.requestId });
}

const conflict = (message: string): ConsoleRefusal => ({ outcome: "refused", status: 409, message });
const failed = (message: string): ConsoleRefusal => ({ outcome: "refused", status: 503, message });

export const bookMonthReads = {
  listStatements: defineRead({
    summary: "List the statements of closed months",
    description: "The latest month first. isClosed is about the given month.",
    query: z.object({ month: z.string().regex(monthPattern), cursor: z.string().min(1).max(1_024).optional() }),
    answer: z.object({ isClosed: z.boolean(), records: z.array(summarySchema), nextCursor: z.string().nullable() }),
    read: (call, { month, cursor }) => listStatements(call.context, { member: bookMember(call), month, cursor }),
  }),
  getStatement: defineRead({
    summary: "Get the statement of a closed month",
    description: "With what changed after the close.",
    answer: statementSchema.omit({ outcome: true, records: true }),
    async read(call) {
      const id = call.uuid("statementId");
      const read = await requireStatement(call.context, { member: bookMember(call), id, withRecords: false });
      const { outcome: _, records: __, ...statement } = read;
      return statement;
    },
  }),
  getCloseChecklist: defineRead({
    summary: "Get what closing a month needs",
    description: "state identifies the records, and figures show what is open.",
    answer: checklistSchema,
    read: (call) => readCloseChecklist(call.context, { member: bookMember(call), month: requireMonth(call) }),
  }),
  explainBookMonth: defineRead({
    summary: "Explain a provider’s month",
    description: "In total, by workspace and by day, with the likely causes of a difference.",
    answer: explainedMonthSchema.extend({ record: reconciledMonth }),
    read(call) {
      const { context, param } = call;
      const month = readBookMonth({ month: param("month"), provider: param("provider") }, context);
      return explainPlatformMonth(context, { reader: bookMember(call), ...month });
    },
  }),
  compareUsageHours: defineRead({
    summary: "Compare what a provider counted in a day’s hours with our calls",
    description: "hour (00 to 23), model and skip choose the calls that are listed.",
    query: z.object({ hour: z.string().optional(), model: z.string().optional(), skip: z.string().optional() }),
    answer: comparedHours,
    read(call) {
      const { provider, day } = requireDay(call, { matching: "hours" });
      const line = readChosenLine(call.url, day);
      return compareHours(call.context, { member: bookMember(call), provider, day, line });
    },
  }),
  compareGenerations: defineRead({
    summary: "Compare OpenRouter’s answers about a day’s calls with our runs",
    description: "runs is how many runs earlier pages list.",
    query: z.object({ runs: z.string().optional() }),
    answer: comparisonSchema
      .omit({ outcome: true })
      .extend({ skipped: z.number().int(), missingKey: z.string().nullable() }),
    read(call) {
      const { day } = requireDay(call, { matching: "generations" });
      return readGenerations(call.context, { reader: bookMember(call), day, url: call.url });
    },
  }),
};

export const bookMonthActs = {
  closeMonth: defineAct({
    summary: "Close a month of the platform’s book",
    description:
      "state is that of the checklist. Each open point needs a reason; a reason without a provider is for all providers of its kind.",
    body: changeBody.extend({
      state: z.string().regex(/^[0-9a-f]{64}$/),
      reasons: z
        .array(
          z.strictObject({
            kind: z.enum(openPointKinds),
            provider: z.string().max(128).nullable().default(null),
            reason: reasonSchema,
          }),
        )
        .max(100)
        .default([]),
    }),
    example: { state: "0".repeat(64), reasons: [], reason: "All invoices are here" },
    async act(call, { state, reasons, reason }) {
      const month = requireMonth(call);
      const change = recordedChange(call, reason);
      const answer = await closeMonth(call.context, { member: bookMember(call), month, state, reasons, change });
      switch (answer.outcome) {
        case "closed":
          return { outcome: "changed" };
        case "already_closed":
          return conflict("The month is already closed.");
        case "changed":
          return conflict("The month’s records have changed. Read the checklist again.");
        case "reasons_missing":
          return { outcome: "refused", status: 400, message: "Each open point needs a reason.", field: "reasons" };
        case "not_ended":
          return conflict("The month hasn’t ended.");
      }
    },
  }),
  reopenMonth: defineAct({
    summary: "Reopen the month of a statement",
    ...reasonOnly,
    async act(call, { reason }) {
      const [id, change] = [call.uuid("statementId"), recordedChange(call, reason)];
      const outcome = await reopenMonth(call.context, { member: bookMember(call), id, change });
      return outcome === "reopened" ? { outcome: "changed" } : conflict("The month was already reopened.");
    },
  }),
  fetchUsageHours: defineAct({
    summary: "Ask a provider what it counted in a day’s hours",
    body: z.strictObject({}),
    example: {},
    async act(call) {
      const { provider, day } = requireDay(call, { matching: "hours" });
      const source = costSources(call.context.env).find((each) => each.provider.id === provider);
      if (!source) return failed("This server has no key of the provider.");
      try {
        await requestHours(call.context, { source, member: bookMember(call), provider, day });
      } catch (error) {
        if (error instanceof FailedReport) return failed(error.message);
        throw error;
      }
      return { outcome: "changed" };
    },
  }),
  markGatewayKey: defineAct({
    summary: "Mark a provider’s key as used only by this gateway, or remove the mark",
    body: z.strictObject({ keyId: z.string().min(1).max(256), marked: z.boolean() }),
    example: { keyId: "key_abc", marked: true },
    async act(call, { keyId, marked }) {
      const { context, param } = call;
      const provider = param("provider");
      if (matchingOf(provider) !== "hours") throw problem("NOT_FOUND", { requestId: context.requestId });
      const form = new FormData();
      form.set("keyId", keyId);
      form.set("marked", String(marked));
      await markGatewayKey(context, { member: bookMember(call), provider, form });
      return { outcome: "changed" };
    },
  }),
  fetchGenerations: defineAct({
    summary: "Ask OpenRouter for the costs of a day’s calls",
    description: "Asks for up to 200 calls without an answer. Repeat it while compareGenerations shows pending calls.",
    body: z.strictObject({}),
    example: {},
    async act(call) {
      const { day } = requireDay(call, { matching: "generations" });
      const reader = bookMember(call);
      const { failure } = await fetchGenerations(call.context, { reader, day, form: new FormData() });
      return failure ? failed(failure.message) : { outcome: "changed" };
    },
  }),
};
