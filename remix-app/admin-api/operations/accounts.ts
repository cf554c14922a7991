import { z } from "zod";
import { type Account, accountSchema, foundSchema, readAccounts, timelineSchema } from "../../admin/accounts.ts";
import { blockSchema, listAddressBlocks } from "../../admin/address-blocks.ts";
import { problem } from "../../http/problem.ts";
import { callFunction } from "../../supabase/data-api.ts";
import {
  type AdminCall,
  byCreation,
  defineChange,
  defineList,
  defineRead,
  reasonOnly,
  searchQuery,
} from "../define.ts";
import { readSpending, spendingParts } from "../spending.ts";

/** An account as it is answered: each session has one name of its device. */
const accountAnswer = accountSchema.extend({
  sessions: z.array(
    z.object({
      id: z.uuid(),
      createdAt: z.string(),
      lastSeenAt: z.string(),
      ip: z.string().nullable(),
      method: z.string().nullable(),
      aal: z.string().nullable(),
      device: z.string(),
    }),
  ),
});

const address = z.union([z.ipv4(), z.ipv6()], "Enter an IP address.");

/** Returns the account of a path. @throws Response 404 */
export async function requireAccount({ context, uuid }: AdminCall): Promise<Account> {
  const account = await callFunction(context, {
    name: "private.account_overview",
    args: { subject_id: uuid("userId") },
    schema: accountSchema.nullable(),
  });
  if (account) return account;
  throw problem("NOT_FOUND", { requestId: context.requestId, detail: "This account doesn’t exist." });
}

export const accountReads = {
  searchAccounts: defineRead({
    summary: "List or search accounts",
    description:
      "Without q, all accounts, newest first, including deleted ones. q is an ID or an email, or a part of an email or name; then there is one page.",
    query: searchQuery,
    answer: z.object({ accounts: foundSchema, nextCursor: z.string().nullable() }),
    async read({ context }, { q, limit, cursor = null }) {
      const { accounts, nextCursor } = await readAccounts(context, { term: q, cursor, limit });
      return { accounts, nextCursor };
    },
  }),
  getAccount: defineRead({
    summary: "Get an account",
    description: "With its sign-in methods, sessions, and everything else that acts for it, without secrets.",
    answer: z.object({ account: accountAnswer }),
    read: async (call) => ({ account: await requireAccount(call) }),
  }),
  listAccountTimeline: defineList({
    summary: "List what an account’s owner and admins did",
    description: "Newest first: the owner’s own log, and the console’s changes to the account.",
    field: "entries",
    rows: timelineSchema.element,
    name: "private.account_timeline",
    order: byCreation,
    args: ({ after, call }) => ({ subject_id: call.uuid("userId"), before: after }),
  }),
  listAccountSpending: defineRead({
    summary: "List what accounts spend in a month",
    ...spendingParts,
    read: ({ context }, query) => readSpending(context, { ...query, by: "account" }),
  }),
  listAddressBlocks: defineRead({
    summary: "List blocked addresses",
    description: "All active blocks, at most 50. With address, all blocks of its network in the last 30 days.",
    query: z.object({ address: address.optional() }),
    answer: z.object({ blocks: z.array(blockSchema), more: z.boolean() }),
    read: ({ context }, query) => listAddressBlocks(context, { address: query.address ?? null }),
  }),
};

export const accountChanges = {
  signAccountOut: defineChange({
    summary: "Sign an account out everywhere",
    description: "Ends its sessions, app sessions, app tokens and agents. Workspace API keys keep working.",
    ...reasonOnly,
    change: ({ uuid }) => ({ subject: uuid("userId") }),
  }),
  liftAddressBlock: defineChange({
    summary: "Lift the block of an address",
    ...reasonOnly,
    change: ({ uuid }) => ({ block: uuid("blockId") }),
  }),
};
