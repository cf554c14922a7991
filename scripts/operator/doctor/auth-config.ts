import { z } from "zod";
import { isLoopback } from "#shared/loopback.ts";
import type { Configuration } from "./configuration.ts";

const requestLimitMs = 10_000;

/** The source of the identity backend's own settings, which the backend itself does not show. */
export type AuthConfig =
  /** A local stack starts its backend with the settings that this release needs. */
  | { from: "local" }
  /** A hosted project's settings, as Supabase's Management API returns them. */
  | { from: "project"; project: string; values: Record<string, unknown> }
  /** The settings of a self-hosted backend, if they were given to the doctor. */
  | { from: "environment"; values: Record<string, string | undefined> }
  | { from: "nowhere"; why: string };

/** Reads the identity backend's settings, with at most one call of the Management API using SUPABASE_ACCESS_TOKEN. */
export async function readAuthConfig(
  { settings, local }: Pick<Configuration, "settings" | "local">,
  managementApi = "https://api.supabase.com",
): Promise<AuthConfig> {
  const { hostname } = new URL(settings.SUPABASE_URL ?? "");
  const onThisMachine = isLoopback(hostname);
  if (local && onThisMachine) return { from: "local" };
  const project = onThisMachine ? undefined : projectOf(hostname) || settings.SUPABASE_PROJECT_ID;
  if (!project) return { from: "environment", values: settings };
  const { SUPABASE_ACCESS_TOKEN: token } = settings;
  if (!token) return { from: "nowhere", why: "not shown without SUPABASE_ACCESS_TOKEN (docs/operating.md)" };
  const url = `${managementApi}/v1/projects/${encodeURIComponent(project)}/config/auth`;
  const answer = await fetch(url, {
    headers: { authorization: `Bearer ${token}` },
    signal: AbortSignal.timeout(requestLimitMs),
  }).catch(() => null);
  if (!answer) return { from: "nowhere", why: `${new URL(url).host} does not answer` };
  if (!answer.ok) {
    const says =
      answer.status === 401 || answer.status === 403 ? "refuses SUPABASE_ACCESS_TOKEN" : "does not show them";
    return { from: "nowhere", why: `the Management API ${says} (${answer.status}) for project ${project}` };
  }
  const values = z.record(z.string(), z.unknown()).safeParse(await answer.json().catch(() => undefined));
  return values.success ? { from: "project", project, values: values.data } : notShown(project);
}

/** Returns the reason to report if the Management API's response lacks a setting. */
export function notShown(project: string): { from: "nowhere"; why: string } {
  return { from: "nowhere", why: `the Management API does not show them for project ${project}` };
}

/** Returns the project ref in a hosted address. A custom domain contains none. */
function projectOf(hostname: string): string | undefined {
  return /^([a-z0-9]+)\.supabase\.co$/.exec(hostname)?.[1];
}
