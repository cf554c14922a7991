import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { isLoopback } from "#shared/loopback.ts";
import { buildPage, parseCursor, readKeyCursor, writeKeyCursor } from "../http/list-page.ts";
import { problem } from "../http/problem.ts";
import { callFunction } from "../supabase/data-api.ts";
import { reasonedChangeSchema } from "./confirmation.ts";
import { clientSchema } from "./openid-clients.ts";
import {
  appName,
  changeRegistry,
  createAddressLinesSchema,
  displayName,
  logoutUrl,
  type RegistryChange,
  type RegistryOutcome,
  type RegistryStep,
  registrationPage,
  registrationPosition,
  registrationsPerPage,
  versionedChangeSchema,
} from "./registry.ts";
import { overlapSeconds } from "./registry-steps.ts";

export const appSchema = z.object({
  name: z.string(),
  displayName: z.string(),
  kind: z.enum(["internal", "external"]),
  enabled: z.boolean(),
  scopes: z.array(z.string()),
  origins: z.array(z.string()),
  logoutUrl: z.string().nullable(),
  resourceUrl: z.string().nullable(),
  workspaces: z.array(z.object({ id: z.uuid(), name: z.string() })),
  secrets: z.array(z.object({ createdAt: z.string(), expiresAt: z.string().nullable() })),
  createdAt: z.string(),
  /** Identifies the last change. The next change must send it. */
  version: z.uuid().nullable(),
});
export type RegisteredApp = z.infer<typeof appSchema>;
export const listedAppSchema = appSchema
  .omit({ secrets: true, version: true, logoutUrl: true, resourceUrl: true })
  .extend({ secrets: z.number() });

/** A change to an existing app. The last segment of the page's URL names the change. */
export type AppStep = Exclude<RegistryStep, "add">;

/** The maximum number of an app's origins. */
export const maxOrigins = 20;

/** Returns what is wrong with an origin, which must be complete and as browsers write it, or null. */
export function originFault(origin: string): string | null {
  const isComplete = URL.parse(origin)?.origin === origin && /^https?:/.test(origin);
  return isComplete ? null : `${origin} isn’t a full origin, such as https://notes.example.com`;
}

/** An app without sign-in has none. */
const origins = createAddressLinesSchema({ max: maxOrigins, what: "origins", faultOf: originFault });

/** Returns whether origins have one of this machine, which only development allows. */
export function hasForbiddenOrigin({ env }: AppLoadContext, origins: readonly string[]): boolean {
  return env.NODE_ENV === "production" && origins.some((origin) => isLoopback(new URL(origin).hostname));
}

/** The form that registers an app. */
export const newAppSchema = reasonedChangeSchema.extend({
  name: appName,
  kind: z.enum(["internal", "external"]),
  displayName,
  origins,
  logoutUrl,
});
const changeSchemaByStep = {
  edit: z.object({ displayName, origins, logoutUrl }),
  enable: z.object({}),
  disable: z.object({}),
  rotate: z.object({ overlapSeconds }),
  link: z.object({ workspace: z.uuid("Enter the workspace ID") }),
  unlink: z.object({ workspace: z.uuid("Enter the workspace ID") }),
} as const satisfies Record<AppStep, z.ZodObject>;

/** Returns the schema of the form for a change. */
export function appChangeSchema(step: AppStep) {
  return z.intersection(versionedChangeSchema, changeSchemaByStep[step]);
}

const registryPage = z.object({ apps: z.array(listedAppSchema), clients: z.array(clientSchema) });

/**
 * Returns a page of the apps and one of the OpenID clients, each ordered by name.
 * @param query.term a part of a name
 * @throws Response 400 INVALID_REQUEST for an invalid cursor, 503 UNAVAILABLE
 */
export async function readRegistry(
  context: AppLoadContext,
  query: { term: string; appCursor: string | null; clientCursor: string | null },
) {
  const args = {
    term: query.term,
    after_app: registrationPosition(query.appCursor, context),
    after_client: registrationPosition(query.clientCursor, context),
    page_size: registrationsPerPage + 1,
  };
  const found = await callFunction(context, { name: "private.read_apps_page", args, schema: registryPage });
  return { apps: registrationPage(found.apps), clients: registrationPage(found.clients) };
}

const workspacesPerPage = 50;
const workspaceId = z.uuid();

function readWorkspaceCursor(cursor: string): string[] | null {
  const position = readKeyCursor(cursor, { length: 2 });
  return workspaceId.safeParse(position?.[1]).success ? position : null;
}

/**
 * Returns an app with a page of its linked workspaces.
 * @throws Response 404 for an unknown app, 400 INVALID_REQUEST for an invalid cursor
 */
export async function requireApp(
  context: AppLoadContext,
  name: string | undefined,
  cursor: string | null = null,
): Promise<RegisteredApp & { nextCursor: string | null }> {
  const args = {
    app_name: name ?? "",
    after: parseCursor(cursor, { read: readWorkspaceCursor, requestId: context.requestId }),
    page_size: workspacesPerPage + 1,
  };
  const app = await callFunction(context, { name: "private.read_app", args, schema: appSchema.nullable() });
  if (app) {
    const { records, nextCursor } = buildPage(app.workspaces, {
      limit: workspacesPerPage,
      cursorOf: (last) => writeKeyCursor([last.name, last.id]),
    });
    return { ...app, workspaces: records, nextCursor };
  }
  throw problem("NOT_FOUND", { requestId: context.requestId, detail: "This app doesn’t exist." });
}

/** Registers or changes an app. */
export async function changeApp(context: AppLoadContext, change: RegistryChange): Promise<RegistryOutcome> {
  const { origins, step } = change;
  const isLocal = Array.isArray(origins) && hasForbiddenOrigin(context, origins);
  if (isLocal) return { outcome: "refused", ...refusals.local };
  return changeRegistry(context, { call: step === "add" ? "add_app" : "change_app", change, refusals });
}

export const localOrigins = "Localhost origins can only be registered in development.";

const refusals = {
  not_found: { status: 404, message: "This app doesn’t exist." },
  taken: { status: 409, message: "An app with that name or one of these origins is already registered." },
  invalid: {
    status: 400,
    message: "Gateway scopes are only for external apps, and origins must use https.",
  },
  no_workspace: { status: 400, message: "This workspace doesn’t exist, or the app isn’t external." },
  oneself: { status: 403, message: "You can’t link an app to your own personal workspace." },
  local: { status: 400, message: localOrigins },
} as const;
