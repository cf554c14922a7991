import type { AppLoadContext } from "@remix-run/node";
import { z } from "zod";
import { callAppFunction } from "../apps/app-database.ts";
import { readResponseTarget } from "./authorization-request.ts";
import { findParameters } from "./open-authorization.ts";

const clientAnswer = z
  .object({ client: z.object({ displayName: z.string(), enabled: z.boolean() }), redirectAllowed: z.boolean() })
  .nullable();

/** Details of an OpenID client that the sign-in page shows. */
export interface OpenidSignIn {
  appName: string | null;
  /** The email that the client expects. Anyone can write it into the URL, so it is not trusted. */
  loginHint: string;
}

const maxHintLength = 254;

/**
 * Returns the client's details if `path` is an OpenID authorization request, or null for any other path.
 * @throws Response 503 AUTH_UNAVAILABLE
 */
export async function readOpenidSignIn(context: AppLoadContext, path: string): Promise<OpenidSignIn | null> {
  const { pathname, searchParams } = new URL(path || "/", context.origin);
  if (pathname !== "/oauth/authorize") return null;
  const parameters = (await findParameters(context, searchParams))?.parameters ?? new URLSearchParams();
  const target = readResponseTarget(parameters);
  const loginHint = parameters.get("login_hint") ?? "";
  const answer = target
    ? await callAppFunction(context, {
        name: "open_openid_authorization",
        args: { client_id: target.clientId, redirect_uri: target.redirectUri, scopes: [] },
        schema: clientAnswer,
      })
    : null;
  return {
    appName: answer?.redirectAllowed ? answer.client.displayName : null,
    loginHint: loginHint.length <= maxHintLength && loginHint.includes("@") ? loginHint : "",
  };
}
