import { logError } from "../_gateway/log-error.ts";
import type { BackgroundTasks } from "./background.ts";
import type { FunctionsHandler } from "./functions.ts";
import type { Listen } from "./listen.ts";
import type { MetricsPage } from "./metrics-page.ts";

/** How long the work behind the last responses may take after they have ended: settlements, and spans. */
const settleLimitMs = 5_000;

export type Server = {
  /**
   * Stops accepting connections and lets calls in progress end, at most until `drainMs`. Then waits until all calls are
   * settled. @returns the number of background tasks that were not done in time
   */
  stop: (drainMs: number) => Promise<number>;
};

/**
 * Serves the functions, and the paths of the process itself:
 *
 * - `/healthz` answers 200 while the process runs.
 * - `/readyz` answers 200 if calls can be served, otherwise 503 with the reason.
 * - `/metrics` answers with the process's metrics, if they are on.
 */
export function startServer({
  serveFunctions,
  findReason,
  metricsPage,
  background,
  flush,
  isDirect,
  listen,
  hostname,
  port,
  onListen,
  onFailure,
}: {
  serveFunctions: FunctionsHandler;
  /** Returns why calls can't be served, if so. */
  findReason: () => Promise<string | undefined>;
  metricsPage?: MetricsPage;
  background: BackgroundTasks;
  /** Sends waiting batches immediately. */
  flush: () => Promise<unknown>;
  /** Whether clients connect without a proxy, so that the connection's address is the caller's. */
  isDirect: boolean;
  listen: Listen;
  hostname: string;
  port: number;
  onListen: () => void;
  onFailure: (error: NodeJS.ErrnoException) => void;
}): Server {
  let stopping = false;

  const processRoutes: Record<string, FunctionsHandler> = {
    async "/healthz"() {
      return Response.json({ status: "ok" });
    },
    async "/readyz"() {
      const reason = stopping ? "The process is stopping." : await findReason();
      if (reason === undefined) return Response.json({ status: "ok" });
      return Response.json({ status: "unavailable", reason }, { status: 503 });
    },
  };

  async function handle(request: Request, info: { remoteAddress: string }): Promise<Response> {
    const { pathname } = new URL(request.url);
    const metrics = pathname === "/metrics" ? await metricsPage?.(request, info) : undefined;
    if (isDirect) request.headers.set("x-forwarded-for", info.remoteAddress);
    const serve = Object.hasOwn(processRoutes, pathname) ? processRoutes[pathname] : undefined;
    const response = metrics ?? (await (serve ?? serveFunctions)(request));
    if (stopping) response.headers.set("connection", "close");
    return response;
  }

  const stopListening = listen(handle, {
    hostname,
    port,
    onListen,
    onFailure,
    onError(error) {
      logError(error);
      return Response.json({ error: "internal_error" }, { status: 500 });
    },
  });
  return {
    async stop(drainMs) {
      stopping = true;
      await stopListening(drainMs);
      background.waitUntil(flush());
      return background.drain(settleLimitMs);
    },
  };
}
