import type { AppLoadContext } from "@remix-run/server-runtime";
import { z } from "zod";
import { isLoopback } from "#shared/loopback.ts";
import { pageOf, positionOf, readKeyCursor, writeKeyCursor } from "../http/list-page.ts";
import { problem } from "../http/problem.ts";
import { logoutUrlFault } from "../openid/client-uris.ts";
import { appScopes } from "../satellites/app-rights.ts";
import { hashOf, newOpaqueToken } from "../satellites/tokens.ts";
import { callFunction } from "../supabase/data-api.ts";
import { actInConsole, type ConsoleRefusal, confirmedChangeSchema } from "./console-change.ts";
import type { InfrastructureAdmin } from "./require-admin.ts";

const appSchema = z.object({
  name: z.string(),
  displayName: z.string(),
  kind: z.enum(["internal", "external"]),
  enabled: z.boolean(),
  scopes: z.array(z.string()),
  origins: z.array(z.string()),
  logoutUrl: z.string().nullable(),
  workspaces: z.array(z.object({ id: z.uuid(), name: z.string() })),
  secrets: z.array(z.object({ createdAt: z.string(), expiresAt: z.string().nullable() })),
  createdAt: z.string(),
  /** Of its last change; goes with the next one. */
  version: z.uuid().nullable(),
});
export type RegisteredApp = z.infer<typeof appSchema>;
const listedSchema = z.array(
  appSchema.omit({ secrets: true, version: true, logoutUrl: true }).extend({ secrets: z.number() }),
);
export type ListedApp = z.infer<typeof listedSchema>[number];

/** What is done to an app, by the last part of the address. */
export type AppStep = "edit" | "enable" | "disable" | "rotate" | "link" | "unlink";

export const displayName = z.string().trim().min(1, "Enter a display name").max(80, "At most 80 characters");

const maxOrigins = 20;

/** Whole origins as browsers write them, one a line; an app that signs nobody in has none. */
const origins = z.string().transform((text, context) => {
  const lines = [...new Set(text.split(/\s+/).filter(Boolean))];
  const wrong = lines.find((line) => URL.parse(line)?.origin !== line || !/^https?:/.test(line));
  if (wrong === undefined && lines.length <= maxOrigins) return lines;
  const message = wrong
    ? `${wrong} isn’t a full origin, such as https://notes.example.com`
    : `At most ${maxOrigins} origins`;
  context.addIssue({ code: "custom", message });
  return z.NEVER;
});

export const appName = z
  .string()
  .trim()
  .regex(/^[a-z][a-z0-9-]{1,39}$/, "2 to 40 of a–z, 0–9 and -, beginning with a letter")
  .refine(
    (name) => !["web", "central", "new"].includes(name),
    "web, central and new are reserved. Choose another name",
  );

/** Where an app learns of ended logins; empty for none. */
export const logoutUrl = z
  .string()
  .trim()
  .default("")
  .transform((text, context) => {
    const fault = text === "" ? null : logoutUrlFault(text);
    if (fault) context.addIssue({ code: "custom", message: fault });
    return text === "" ? null : text;
  });

/** The forms of the registry. Scopes are read by {@link scopesOf}. */
export const newAppSchema = confirmedChangeSchema.extend({
  name: appName,
  kind: z.enum(["internal", "external"]),
  displayName,
  origins,
  logoutUrl,
});
const steps = {
  edit: z.object({ displayName, origins, logoutUrl }),
  enable: z.object({}),
  disable: z.object({}),
  rotate: z.object({ overlapSeconds: z.coerce.number().int().min(0).max(86_400) }),
  link: z.object({ workspace: z.uuid("Enter the workspace ID") }),
  unlink: z.object({ workspace: z.uuid("Enter the workspace ID") }),
} as const satisfies Record<AppStep, z.ZodObject>;

/** The form of a step. `version` is of the app that the admin saw. */
export function appChangeSchema(step: AppStep) {
  const version = z.uuid().or(z.literal("")).default("");
  return z.intersection(confirmedChangeSchema.extend({ version }), steps[step]);
}

/** The scopes that a form has ticked. */
export function scopesOf(form: FormData): string[] {
  return appScopes.flatMap(({ field, scope }) => (form.has(field) ? [scope] : []));
}

const appsShown = 50;

/**
 * Returns a page of the registry, ordered by name.
 * @param options.term a part of a name
 * @throws Response 400 INVALID_REQUEST for an invalid cursor, 503 UNAVAILABLE
 */
export async function listApps(
  context: AppLoadContext,
  { term, cursor }: { term: string; cursor: string | null },
): Promise<{ apps: ListedApp[]; nextCursor: string | null }> {
  const read = (text: string) => readKeyCursor(text, { length: 1 });
  const [after = null] = positionOf(cursor, { read, requestId: context.requestId }) ?? [];
  const args = { term, after, page_size: appsShown + 1 };
  const found = await callFunction(context, { name: "private.list_apps", args, schema: listedSchema });
  const { records: apps, nextCursor } = pageOf(found, {
    limit: appsShown,
    cursorOf: ({ name }) => writeKeyCursor([name]),
  });
  return { apps, nextCursor };
}

const workspacesShown = 50;
const workspaceId = z.uuid();

function readWorkspaceCursor(cursor: string): string[] | null {
  const position = readKeyCursor(cursor, { length: 2 });
  return workspaceId.safeParse(position?.[1]).success ? position : null;
}

/**
 * An app with a page of the workspaces that it is linked to.
 * @throws Response 404 for an unknown app, 400 INVALID_REQUEST for an invalid cursor
 */
export async function requireApp(
  context: AppLoadContext,
  name: string | undefined,
  cursor: string | null = null,
): Promise<RegisteredApp & { nextCursor: string | null }> {
  const args = {
    app_name: name ?? "",
    after: positionOf(cursor, { read: readWorkspaceCursor, requestId: context.requestId }),
    page_size: workspacesShown + 1,
  };
  const app = await callFunction(context, { name: "private.read_app", args, schema: appSchema.nullable() });
  if (app) {
    const { records, nextCursor } = pageOf(app.workspaces, {
      limit: workspacesShown,
      cursorOf: (last) => writeKeyCursor([last.name, last.id]),
    });
    return { ...app, workspaces: records, nextCursor };
  }
  throw problem("NOT_FOUND", { requestId: context.requestId, detail: "This app doesn’t exist." });
}

type Done = { outcome: "changed"; secret: string | null } | ConsoleRefusal;

/** Registers an app. Its secret is told here and never again. */
export function addApp(
  context: AppLoadContext,
  change: Omit<z.output<typeof newAppSchema>, "confirmation"> & { admin: InfrastructureAdmin; scopes: string[] },
): Promise<Done> {
  return act(context, { ...change, call: "add_app", secret: newOpaqueToken("") });
}

/** Changes an app. A rotation tells the new secret here and never again. */
export function changeApp(
  context: AppLoadContext,
  change: { admin: InfrastructureAdmin; name: string; step: AppStep; version: string | null; reason: string } & Record<
    string,
    unknown
  >,
): Promise<Done> {
  return act(context, { ...change, call: "change_app", secret: change.step === "rotate" ? newOpaqueToken("") : null });
}

async function act(
  context: AppLoadContext,
  {
    admin,
    call,
    secret,
    ...change
  }: { admin: InfrastructureAdmin; call: string; secret: string | null; origins?: unknown } & Record<string, unknown>,
): Promise<Done> {
  const local = Array.isArray(change.origins) && change.origins.some((origin) => isLoopback(new URL(origin).hostname));
  if (local && context.env.NODE_ENV === "production") return { outcome: "refused", ...refusals.local };
  const hashed = secret === null ? change : { ...change, secretHash: hashOf(secret) };
  const done = await actInConsole(context, { admin, name: call, change: hashed, refusals });
  return done.outcome === "changed" ? { outcome: "changed", secret } : done;
}

const refusals = {
  not_found: { status: 404, message: "This app doesn’t exist." },
  taken: { status: 409, message: "An app with that name or one of these origins is already registered." },
  invalid: {
    status: 400,
    message: "Gateway scopes are only for external apps, and origins must use https.",
  },
  no_workspace: { status: 400, message: "This workspace doesn’t exist, or the app isn’t external." },
  local: { status: 400, message: "Localhost origins can only be registered in development." },
} as const;
