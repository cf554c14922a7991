const timeoutMs = 3_000;

/** Whether an app's page for the end of a sign-in is there. `missing`: it answered that there is no such page. */
export type VerifyRoute = "present" | "missing" | "unreachable";

/**
 * Looks for an app's `/verify-token` before anybody is sent there, so that nobody is left on a page with nothing to
 * finish the handoff. Asks the registered origin alone, without any credential, and follows nothing.
 */
export async function findVerifyRoute(origin: string): Promise<VerifyRoute> {
  try {
    const response = await fetch(reachable(new URL("/verify-token", origin)), {
      method: "HEAD",
      redirect: "manual",
      signal: AbortSignal.timeout(timeoutMs),
    });
    return response.status === 404 || response.status === 410 ? "missing" : "present";
  } catch {
    return "unreachable";
  }
}

/** Browsers take every name under .localhost for this machine (RFC 6761 §6.3); what resolves names for Node may not. */
function reachable(url: URL): URL {
  if (url.hostname.endsWith(".localhost")) url.hostname = "127.0.0.1";
  return url;
}
