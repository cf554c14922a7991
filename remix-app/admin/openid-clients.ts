import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { problem } from "../http/problem.ts";
import { clientNameFault } from "../openid/client-name.ts";
import { maxUris, redirectUriFault } from "../openid/client-uris.ts";
import { callFunction } from "../supabase/data-api.ts";
import { reasonedChangeSchema } from "./confirmation.ts";
import {
  appName,
  changeRegistry,
  createAddressLinesSchema,
  displayName,
  logoutUrl,
  type RegistryChange,
  type RegistryOutcome,
  type RegistryStep,
  versionedChangeSchema,
} from "./registry.ts";
import { overlapSeconds } from "./registry-steps.ts";

export const clientSchema = z.object({
  name: z.string(),
  displayName: z.string(),
  enabled: z.boolean(),
  isPublic: z.boolean(),
  scopes: z.array(z.string()),
  redirectUris: z.array(z.string()),
  postLogoutRedirectUris: z.array(z.string()),
  logoutUrl: z.string().nullable(),
  allowsDeviceGrant: z.boolean(),
  requiresPkce: z.boolean(),
  claimsInIdToken: z.boolean(),
  groupsWorkspaceId: z.uuid().nullable(),
  secrets: z.array(z.object({ createdAt: z.string(), expiresAt: z.string().nullable() })),
  /** Identifies the last change. A request to change the client must send this value. */
  version: z.uuid().nullish(),
});
export type RegisteredClient = z.infer<typeof clientSchema>;

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

/** Changes to a client. */
export type ClientStep = Exclude<RegistryStep, "add" | "link" | "unlink">;

/** What the fields of a client depend on. `platform` is the platform's name. */
type ClientFacts = { isPublic: boolean; platform: string };

function editFields({ isPublic, platform }: ClientFacts) {
  const faultOf = (uri: string) => redirectUriFault(uri, { isPublic });
  const checkbox = z.literal("on").optional().transform(Boolean);
  return {
    displayName: displayName.superRefine((name, context) => {
      const fault = clientNameFault(name, { platform });
      if (fault) context.addIssue({ code: "custom", message: `${fault}. Choose another one` });
    }),
    redirectUris: createAddressLinesSchema({ max: maxUris, what: "redirect URIs", faultOf }),
    postLogoutRedirectUris: createAddressLinesSchema({ max: maxUris, what: "post-logout redirect URIs", faultOf }),
    logoutUrl,
    allowsDeviceGrant: checkbox,
    // A public client proves itself by PKCE alone.
    requiresPkce: z
      .enum(isPublic ? ["yes"] : ["yes", "no"], "Only a confidential client can do without PKCE")
      .default("yes")
      .transform((choice) => choice === "yes"),
    claimsInIdToken: checkbox,
    groupsWorkspaceId: z
      .uuid("Enter a workspace’s ID, or nothing")
      .or(z.literal("").transform(() => null))
      .default(null),
  };
}

/** The form that registers a client. */
export function newClientSchema(facts: ClientFacts) {
  return reasonedChangeSchema
    .extend({ name: appName, ...editFields(facts) })
    .refine(({ redirectUris, allowsDeviceGrant }) => redirectUris.length > 0 || allowsDeviceGrant, {
      path: ["redirectUris"],
      error: "Enter a redirect URI, or allow sign-in on devices",
    });
}

/** Returns the schema of a step's form. */
export function clientChangeSchema(step: ClientStep, facts: ClientFacts) {
  if (step === "edit") return versionedChangeSchema.extend(editFields(facts));
  return step === "rotate" ? versionedChangeSchema.extend({ overlapSeconds }) : versionedChangeSchema;
}

const calls: Partial<Record<RegistryStep, string>> = { add: "add_openid_client", edit: "change_openid_client" };

/** Registers or changes a client. */
export function changeOpenidClient(context: AppLoadContext, change: RegistryChange): Promise<RegistryOutcome> {
  return changeRegistry(context, { call: calls[change.step] ?? "change_app", change, refusals });
}

const refusals = {
  not_found: { status: 404, message: "This OpenID client doesn’t exist." },
  taken: { status: 409, message: "An app with that name is already registered." },
  invalid: { status: 400, message: "The registry refused this. Check the addresses, the scopes and the workspace." },
} as const;
