import { type AppLoadContext, data, redirect } from "@remix-run/node";
import { z } from "zod";
import { hashToBytea, newOpaqueToken } from "../apps/opaque-tokens.ts";
import { buildPage, parseCursor, readKeyCursor, writeKeyCursor } from "../http/list-page.ts";
import { isReadable } from "../http/readable.ts";
import { logoutUrlFault } from "../openid/client-uris.ts";
import { type Confirmation, reasonedChangeSchema } from "./confirmation.ts";
import { applyConsoleChange, type ConsoleRefusal } from "./console-change.ts";
import { type FailedChange, failUnconfirmed, failWithErrors, failWithRefusal } from "./failed-change.ts";
import { readLines, readScopes } from "./registry-steps.ts";
import type { InfrastructureAdmin } from "./require-admin.ts";

export const appName = z
  .string()
  .trim()
  .regex(/^[a-z][a-z0-9-]{1,39}$/, "Use 2 to 40 characters (a–z, 0–9 and -), starting with a letter")
  .refine(
    (name) => !["web", "central", "new"].includes(name),
    "web, central and new are reserved. Choose another name",
  );

export const displayName = z
  .string()
  .trim()
  .min(1, "Enter a display name")
  .max(80, "Enter at most 80 characters")
  .refine(isReadable, "Use one line of characters that can be seen");

/** The URL that receives notifications of an app's ended logins; empty for none. */
export const logoutUrl = z
  .string()
  .trim()
  .default("")
  .transform((text, context) => {
    const fault = text === "" ? null : logoutUrlFault(text);
    if (fault) context.addIssue({ code: "custom", message: fault });
    return text === "" ? null : text;
  });

/** The form of every change. `version` is the version of the registration that the admin saw. */
export const versionedChangeSchema = reasonedChangeSchema.extend({
  version: z
    .uuid()
    .or(z.literal("").transform(() => null))
    .default(null),
});

/**
 * Reads addresses, one per line.
 * @param options.faultOf says what is wrong with an address, or null
 * @param options.what the plural noun for the addresses in messages
 */
export function createAddressLinesSchema({
  max,
  what,
  faultOf,
}: {
  max: number;
  what: string;
  faultOf: (address: string) => string | null;
}) {
  return z
    .string()
    .default("")
    .transform((text, context) => {
      const lines = readLines(text);
      const fault = lines.map(faultOf).find((each) => each !== null);
      const message = fault ?? (lines.length > max ? `At most ${max} ${what}` : null);
      if (message === null) return lines;
      context.addIssue({ code: "custom", message });
      return z.NEVER;
    });
}

export const registrationsPerPage = 50;

/** Returns the name after which a page begins; null without a cursor. @throws Response 400 for an invalid cursor */
export function registrationPosition(cursor: string | null, { requestId }: { requestId: string }): string | null {
  const [after = null] = parseCursor(cursor, { read: (text) => readKeyCursor(text, { length: 1 }), requestId }) ?? [];
  return after;
}

/** Returns a page of one kind's registrations, and the cursor of the next page if there are more. */
export function registrationPage<Registration extends { name: string }>(found: readonly Registration[]) {
  return buildPage(found, { limit: registrationsPerPage, cursorOf: ({ name }) => writeKeyCursor([name]) });
}

/** A change to an app or client. Only apps are linked to workspaces. */
export type RegistryStep = "add" | "edit" | "enable" | "disable" | "rotate" | "link" | "unlink";

export type RegistryChange = Record<string, unknown> & {
  admin: InfrastructureAdmin;
  step: RegistryStep;
  /** Whether `add` registers a public client, which has no secret. */
  isPublic?: boolean;
};

type ConsoleCall = Parameters<typeof applyConsoleChange>[1];

/** The result of a change, with the secret that it created, if any. */
export type RegistryOutcome = { outcome: "changed"; secret: string | null } | ConsoleRefusal;

/** Changes the registry. A new secret is returned here and never again. */
export async function changeRegistry(
  context: AppLoadContext,
  { call, change, refusals }: Pick<ConsoleCall, "refusals"> & { call: string; change: RegistryChange },
): Promise<RegistryOutcome> {
  const { admin, step, isPublic = false, ...fields } = change;
  const secret = step === "rotate" || (step === "add" && !isPublic) ? newOpaqueToken("") : null;
  const hashed = { ...fields, step, isPublic, secretHash: secret && hashToBytea(secret) };
  const result = await applyConsoleChange(context, { admin, name: call, change: hashed, refusals });
  return result.outcome === "changed" ? { outcome: "changed", secret } : result;
}

/**
 * Handles a submitted registry form. Returns the error or the newly created secret. If there is neither, redirects to
 * the changed registration.
 * @param options.name the app or client to change. Omit it for a new one, whose name is in the form.
 * @param options.destroys what the admin must type, if the change destroys something
 * @param options.pages the base path of the registrations' pages
 */
export async function answerRegistryForm(
  context: AppLoadContext,
  {
    form,
    schema,
    name: existingName,
    destroys = null,
    pages,
    change,
    ...act
  }: Pick<RegistryChange, "admin" | "step" | "isPublic"> & {
    form: FormData;
    schema: z.ZodType<{ reason: string; name?: string }>;
    name?: string;
    destroys?: Confirmation | null;
    pages: string;
    change: (context: AppLoadContext, change: RegistryChange) => Promise<RegistryOutcome>;
  },
) {
  const fail = (status: number, failed: FailedChange) => data({ created: null, failed }, { status });
  const typed = Object.fromEntries(form);
  const parsed = schema.safeParse(typed);
  if (!parsed.success) return fail(400, failWithErrors(parsed.error, form));
  const unconfirmed = failUnconfirmed(form, destroys);
  if (unconfirmed) return fail(400, unconfirmed);
  const { name = existingName ?? "", ...fields } = parsed.data;
  const scopes = act.step === "add" || act.step === "edit" ? { scopes: readScopes(typed) } : {};
  const result = await change(context, { ...fields, ...scopes, ...act, name });
  if (result.outcome === "refused") return fail(result.status, failWithRefusal(result, form));
  if (result.secret === null) throw redirect(`${pages}/${name}?done`, 303);
  const headers = { "Cache-Control": "private, no-store" };
  return data({ created: { name, secret: result.secret }, failed: undefined }, { headers });
}
