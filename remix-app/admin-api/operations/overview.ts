import { z } from "zod";
import { utcDay } from "#shared/utc-time.ts";
import { withoutSecrets } from "../../admin/audit-change.ts";
import { lineSchema, readAuditLog } from "../../admin/audit-log.ts";
import { overviewSchema, readOverview } from "../../admin/overview.ts";
import { costSources } from "../../books/importer/cost-sources.ts";
import { pageQuery } from "../../http/list-page.ts";
import { problem } from "../../http/problem.ts";
import { callFunction } from "../../supabase/data-api.ts";
import { defineAct, defineRead, requireAdmin, term } from "../define.ts";

const peopleSchema = z.array(
  z.object({
    email: z.string(),
    role: z.enum(["admin", "finance"]),
    reason: z.string(),
    createdAt: z.string(),
    /** Without an authenticator, the console can’t be used. */
    hasAuthenticator: z.boolean(),
  }),
);

export const overviewReads = {
  getOverview: defineRead({
    summary: "Get what needs a person, and the day so far",
    description: "The lists have at most 10 rows; attention counts all, up to 1,001.",
    answer: overviewSchema,
    read: ({ context }) =>
      readOverview(context, { costProviders: costSources(context.env).map(({ provider }) => provider.id) }),
  }),
  listPeople: defineRead({
    summary: "List the people with a role in the console",
    description: "Only the operator’s command line grants and withdraws roles.",
    answer: z.object({ people: peopleSchema }),
    read: async ({ context }) => ({
      people: await callFunction(context, { name: "private.list_console_people", schema: peopleSchema }),
    }),
  }),
  listAuditLog: defineRead({
    summary: "List the audit log",
    description:
      "Newest first. actor and target are parts of a name or email; action is exact, or a prefix that ends with a dot; from and to are whole days in UTC. before and after have numbers as text.",
    query: pageQuery.extend({
      actor: term,
      target: term,
      action: z
        .string()
        .max(100)
        .regex(/^[a-z_.]*$/)
        .default(""),
      from: utcDay.default("").describe("The first day, in UTC."),
      to: utcDay
        .refine((day) => day < "9999-12-31")
        .default("")
        .describe("The last day, in UTC."),
    }),
    answer: z.object({ lines: lineSchema, nextCursor: z.string().nullable() }),
    async read({ context, caller }, { limit, cursor = null, ...filters }) {
      const serviceAccount = caller.person ? null : caller.id;
      const { lines, nextCursor } = await readAuditLog(context, { filters, cursor, limit, serviceAccount });
      return { lines: JSON.parse(JSON.stringify(lines, withoutSecrets)) as typeof lines, nextCursor };
    },
  }),
};

export const overviewActs = {
  changeOutageMails: defineAct({
    summary: "Turn the emails about outages on or off for oneself",
    body: z.strictObject({ outages: z.boolean() }),
    example: { outages: true },
    async act(call, { outages }) {
      const { context } = call;
      const { refused } = await callFunction(context, {
        name: "private.set_outage_mails",
        args: { change: { actor: requireAdmin(call).id, outages } },
        schema: z.object({ refused: z.string().optional() }),
      });
      if (refused !== undefined) throw problem("FORBIDDEN", { requestId: context.requestId });
      return { outcome: "changed" };
    },
  }),
};
