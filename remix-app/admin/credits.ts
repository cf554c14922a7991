import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { buildPage, parseCursor } from "../http/list-page.ts";
import { problem } from "../http/problem.ts";
import { callFunction } from "../supabase/data-api.ts";
import { formatExactCredits } from "../ui/format-amount.ts";
import { reasonedChangeSchema } from "./confirmation.ts";
import { applyConsoleChange, type ConsoleChange } from "./console-change.ts";
import type { InfrastructureAdmin } from "./require-admin.ts";

/** An amount of credits as exact decimal text, which may be 0. */
export const creditAmount = z
  .string({ error: "Enter a number of credits" })
  .trim()
  .regex(/^\d{1,12}(\.\d{1,8})?$/, "Enter a number of credits with at most 8 decimals, such as 5000");

export const accountSchema = z.object({
  payer: z.enum(["workspace", "member"]),
  id: z.uuid(),
  /** The workspace's name, or the member's email. */
  name: z.string(),
  personalUserId: z.uuid().nullable(),
  /** The plan that the account pays for now; null if there is none. */
  plan: z.object({ id: z.string(), name: z.string(), initialCredits: z.string(), lowCredits: z.string() }).nullable(),
  /** Null until a grant or the first call opens the account. */
  account: z
    .object({
      balance: z.string(),
      reserved: z.string(),
      available: z.string(),
      /** When a call was refused for lack of credits; null if no call was refused since the last top-up. */
      refusedAt: z.string().nullable(),
    })
    .nullable(),
  entries: z.array(
    z.object({
      id: z.string(),
      createdAt: z.string(),
      kind: z.enum(["grant", "purchase", "usage", "adjustment", "refund"]),
      amount: z.string(),
      balanceAfter: z.string(),
      runId: z.uuid().nullable(),
      description: z.string().nullable(),
      reference: z.string().nullable(),
    }),
  ),
});
/** The credit account of a workspace or member, with a page of its ledger. */
export type CreditAccount = z.infer<typeof accountSchema>;

const entriesPerPage = 50;
const readPosition = (cursor: string) => (/^[1-9]\d{0,17}$/.test(cursor) ? cursor : null);

/**
 * Returns the account of a workspace or member.
 * @throws Response 404 for an unknown owner, 400 INVALID_REQUEST for a cursor that is not a ledger position
 */
export async function requireCreditAccount(
  context: AppLoadContext,
  { payer, ownerId, cursor }: { payer: string | undefined; ownerId: string | undefined; cursor: string | null },
): Promise<CreditAccount & { nextCursor: string | null }> {
  const id = z.uuid().safeParse(ownerId);
  const before = parseCursor(cursor, { read: readPosition, requestId: context.requestId });
  if (id.success && (payer === "workspace" || payer === "member")) {
    const args = { payer, owner_id: id.data, before_id: before, page_size: entriesPerPage + 1 };
    const schema = accountSchema.nullable();
    const found = await callFunction(context, { name: "private.read_credit_account", args, schema });
    if (found) {
      const { records, nextCursor } = buildPage(found.entries, { limit: entriesPerPage, cursorOf: (last) => last.id });
      return { ...found, entries: records, nextCursor };
    }
  }
  throw problem("NOT_FOUND", { requestId: context.requestId, detail: "This workspace or member doesn’t exist." });
}

/** Returns why this admin cannot change an account, or null. */
export function getCreditRestriction(
  { id }: Pick<InfrastructureAdmin, "id">,
  { personalUserId }: CreditAccount,
): string | null {
  return personalUserId === id ? ownAccountRefusal.message : null;
}

export const creditChangeKinds = {
  grant: { title: "Grant credits", done: "Credits granted." },
  withdraw: { title: "Withdraw credits", done: "Credits withdrawn." },
} as const;
export type CreditChangeKind = keyof typeof creditChangeKinds;

/** The form of a grant or a withdrawal. */
export const creditChangeSchema = reasonedChangeSchema.extend({
  amount: creditAmount.refine((text) => !/^[0.]*$/.test(text), "Enter more than 0 credits"),
  reference: z
    .string()
    .trim()
    .min(1, "Enter a reference, such as an invoice number")
    .max(120, "At most 120 characters")
    // Invisible characters would allow two references that look the same.
    .refine((text) => !/\p{C}/u.test(text), "Enter one line without invisible characters"),
  description: z
    .string()
    .trim()
    .max(200, "At most 200 characters")
    .refine((text) => !/\p{Cc}/u.test(text), "Enter one line")
    .transform((text) => text || null),
});

/** Proposes a reference for a new form, so that sending the form twice makes only one change. */
export function newReference(): string {
  return `console-${new Date().toISOString().slice(0, 10)}-${crypto.randomUUID().slice(0, 8)}`;
}

/** Grants or withdraws credits, once per reference. */
export function changeCredits(
  context: AppLoadContext,
  {
    admin,
    ...change
  }: z.output<typeof creditChangeSchema> & {
    admin: InfrastructureAdmin;
    payer: CreditAccount["payer"];
    ownerId: string;
    step: CreditChangeKind;
  },
): Promise<ConsoleChange> {
  return applyConsoleChange(context, { admin, name: "change_credits", change, refusals });
}

const ownAccountRefusal = {
  status: 403,
  message: "You can’t change your own credits. Ask another admin.",
} as const;

const refusals = {
  oneself: ownAccountRefusal,
  not_found: { status: 404, message: "This workspace or member doesn’t exist." },
  invalid: { status: 400, message: "Enter more than 0 credits.", field: "amount" },
  insufficient: {
    status: 409,
    message:
      "This is more than the available balance. Enter a smaller amount, or wait for requests in progress to finish.",
    field: "amount",
  },
  reference_used: {
    status: 409,
    message: "This reference was already used for another amount. Check the ledger, or enter another reference.",
    field: "reference",
  },
} as const;

/** Returns sentences that describe the effects of a grant or a withdrawal. */
export function creditEffects(step: CreditChangeKind, { name, plan, account }: CreditAccount): string[] {
  const balanceText = account
    ? `The balance is ${formatExactCredits(account.balance)} credits, of which ${formatExactCredits(account.available)} are available.`
    : "The credit account isn’t open yet.";
  if (step === "withdraw") {
    return [
      `Once you confirm, the credits are removed from ${name}’s balance. You can withdraw up to the available balance.`,
      balanceText,
      "Credits reserved for requests in progress can’t be withdrawn.",
    ];
  }
  return [
    `Once you confirm, the credits are added to ${name}’s balance.`,
    balanceText,
    ...(account === null && plan
      ? [`The grant opens it and also adds the plan’s ${formatExactCredits(plan.initialCredits)} initial credits.`]
      : []),
    ...(plan === null ? ["Requests aren’t paid from this balance, because the plan charges another one."] : []),
  ];
}
