import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";
import { pageOf, positionOf, readKeyCursor, writeKeyCursor } from "../http/list-page.ts";
import { problem } from "../http/problem.ts";
import { maxUris, redirectUriFault } from "../openid/client-uris.ts";
import { hashOf, newOpaqueToken } from "../satellites/tokens.ts";
import { callFunction } from "../supabase/data-api.ts";
import { appName, displayName, logoutUrl } from "./apps.ts";
import { actInConsole, type ConsoleRefusal, confirmedChangeSchema } from "./console-change.ts";
import type { InfrastructureAdmin } from "./require-admin.ts";

const clientSchema = z.object({
  name: z.string(),
  displayName: z.string(),
  enabled: z.boolean(),
  isPublic: z.boolean(),
  scopes: z.array(z.string()),
  redirectUris: z.array(z.string()),
  postLogoutRedirectUris: z.array(z.string()),
  logoutUrl: z.string().nullable(),
  allowsDeviceGrant: z.boolean(),
  secrets: z.array(z.object({ createdAt: z.string(), expiresAt: z.string().nullable() })),
  /** Of its last change; the next one names it. */
  version: z.uuid().nullish(),
});
export type RegisteredClient = z.infer<typeof clientSchema>;

const clientsShown = 50;

/**
 * Returns a page of the OpenID clients, ordered by name.
 * @throws Response 400 INVALID_REQUEST for an invalid cursor, 503 UNAVAILABLE
 */
export async function listOpenidClients(
  context: AppLoadContext,
  { term, cursor }: { term: string; cursor: string | null },
): Promise<{ records: RegisteredClient[]; nextCursor: string | null }> {
  const read = (text: string) => readKeyCursor(text, { length: 1 });
  const [after = null] = positionOf(cursor, { read, requestId: context.requestId }) ?? [];
  const args = { term, after, page_size: clientsShown + 1 };
  const found = await callFunction(context, {
    name: "private.list_openid_clients",
    args,
    schema: z.array(clientSchema),
  });
  return pageOf(found, { limit: clientsShown, cursorOf: ({ name }) => writeKeyCursor([name]) });
}

/** @throws Response 404 for an unknown client */
export async function requireOpenidClient(
  context: AppLoadContext,
  name: string | undefined,
): Promise<RegisteredClient> {
  const args = { client_id: name ?? "" };
  const schema = clientSchema.nullable();
  const client = await callFunction(context, { name: "private.read_openid_client", args, schema });
  if (client) return client;
  throw problem("NOT_FOUND", { requestId: context.requestId, detail: "This OpenID client doesn’t exist." });
}

/** Redirect URIs, one per line. Whether private-use schemes may be among them depends on the client. */
function uris({ isPublic }: { isPublic: boolean }) {
  return z
    .string()
    .default("")
    .transform((text, context) => {
      const lines = [...new Set(text.split(/\s+/).filter(Boolean))];
      const fault = lines.map((line) => redirectUriFault(line, { isPublic })).find((each) => each !== null);
      const message = fault ?? (lines.length > maxUris ? `At most ${maxUris} redirect URIs` : null);
      if (message === null) return lines;
      context.addIssue({ code: "custom", message });
      return z.NEVER;
    });
}

/** A change of a client. Each has its reason and the client's id, typed once more. */
export type ClientStep = "edit" | "enable" | "disable" | "rotate";

function editFields({ isPublic }: { isPublic: boolean }) {
  return {
    displayName,
    redirectUris: uris({ isPublic }),
    postLogoutRedirectUris: uris({ isPublic }),
    logoutUrl,
    allowsDeviceGrant: z.literal("on").optional().transform(Boolean),
  };
}

/** The form that registers a client. Scopes are read apart (scopesOf). */
export function newClientSchema({ isPublic }: { isPublic: boolean }) {
  return confirmedChangeSchema
    .extend({ name: appName, ...editFields({ isPublic }) })
    .refine(({ redirectUris, allowsDeviceGrant }) => redirectUris.length > 0 || allowsDeviceGrant, {
      path: ["redirectUris"],
      error: "Enter a redirect URI, or allow sign-in on devices",
    });
}

/** The form of a step. */
export function clientChangeSchema(step: ClientStep, { isPublic }: { isPublic: boolean }) {
  const common = confirmedChangeSchema.extend({ version: z.uuid().or(z.literal("")).default("") });
  if (step === "edit") return common.extend(editFields({ isPublic }));
  if (step !== "rotate") return common;
  return common.extend({ overlapSeconds: z.coerce.number().int().min(0).max(86_400) });
}

type Done = { outcome: "changed"; secret: string | null } | ConsoleRefusal;
type Change = Record<string, unknown> & { admin: InfrastructureAdmin; name: string; scopes?: readonly string[] };

/** Registers a client. A confidential one's secret is returned here and never again. */
export function addOpenidClient(context: AppLoadContext, change: Change & { isPublic: boolean }): Promise<Done> {
  return act(context, { ...change, call: "add_openid_client", secret: change.isPublic ? null : newOpaqueToken("") });
}

/** Changes a client. A rotation returns the new secret here and never again. */
export function changeOpenidClient(context: AppLoadContext, change: Change & { step: ClientStep }): Promise<Done> {
  const call = change.step === "edit" ? "change_openid_client" : "change_app";
  return act(context, { ...change, call, secret: change.step === "rotate" ? newOpaqueToken("") : null });
}

async function act(
  context: AppLoadContext,
  { admin, call, secret, ...change }: Change & { call: string; secret: string | null },
): Promise<Done> {
  const hashed = { ...change, secretHash: secret && hashOf(secret) };
  const done = await actInConsole(context, { admin, name: call, change: hashed, refusals });
  return done.outcome === "changed" ? { outcome: "changed", secret } : done;
}

const refusals = {
  not_found: { status: 404, message: "This OpenID client doesn’t exist." },
  taken: { status: 409, message: "An app with that name is already registered." },
  invalid: { status: 400, message: "The registry refused this. Check the addresses and scopes." },
} as const;
