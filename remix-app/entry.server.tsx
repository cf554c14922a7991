import { isRouteErrorResponse, RemixServer } from "@remix-run/react";
import type { ActionFunctionArgs, AppLoadContext, EntryContext, LoaderFunctionArgs } from "@remix-run/server-runtime";
import { renderToString } from "react-dom/server";
import { isLate, settled } from "./http/late-data.ts";
import type { RouteHandle } from "./http/route-table.ts";
import { revealIn } from "./http/shown-data.ts";
import { NonceContext, type PagePart, PagePartContext } from "./ui/drawing.ts";
import { FailedRequestContext } from "./ui/failed-request.tsx";

/** How long a page's data is kept for what in it is still to come, in milliseconds: nothing is. */
export const streamTimeout = 0;

/**
 * Renders a page, whole: what it shows has been read before, and a page in one piece costs half of one that is streamed.
 * What its scripts start from comes after it.
 */
export default async function handleRequest(
  request: Request,
  given: number,
  headers: Headers,
  { serverHandoffStream, ...remixContext }: EntryContext,
  { nonce, giveText, requestId }: AppLoadContext,
): Promise<Response> {
  const { staticHandlerContext } = remixContext;
  const status = statusOf(staticHandlerContext, given);
  revealIn(staticHandlerContext.loaderData);
  const failed = status >= 500 && !isAlive(remixContext) ? requestId : null;
  const draw = (part: PagePart) =>
    renderToString(
      <PagePartContext.Provider value={part}>
        <NonceContext.Provider value={nonce}>
          <FailedRequestContext.Provider value={failed}>
            <RemixServer context={remixContext} url={request.url} nonce={nonce} />
          </FailedRequestContext.Provider>
        </NonceContext.Provider>
      </PagePartContext.Provider>,
    );
  const page = Object.values(staticHandlerContext.loaderData).some(isLate)
    ? await drawInParts(staticHandlerContext, { draw, gap: `gap-${nonce}` })
    : draw("whole");
  const data = remixContext.renderMeta?.didRenderScripts ? await handedOver(serverHandoffStream, nonce) : "";
  headers.set("Content-Type", "text/html; charset=utf-8");
  const answer = new Response(null, { status, headers });
  giveText(answer, `<!DOCTYPE html>${page}${data}`);
  return answer;
}

/** Remix has an action's status count for more than the failure of what its page was to show. */
function statusOf({ errors }: EntryContext["staticHandlerContext"], given: number): number {
  const [error] = Object.values(errors ?? {});
  if (error === undefined) return given;
  return isRouteErrorResponse(error) ? error.status : 500;
}

/**
 * Draws a page while a loader's reading is still under way: first what need not wait for it, then the rest.
 * @throws what the reading threw, which Remix shows as if the loader had
 */
async function drawInParts(
  shown: EntryContext["staticHandlerContext"],
  { draw, gap }: { draw: (part: PagePart) => string; gap: string },
): Promise<string> {
  const [before = "", after] = draw({ gap }).split(gap);
  // Another loader refused the page.
  if (after === undefined) return before;
  const { loaderData } = shown;
  for (const [routeId, found] of Object.entries(loaderData)) loaderData[routeId] = await settled(found);
  return before + draw("rest") + after;
}

/** Whether a script takes the page over, which has to find it as it would have made it. */
function isAlive({ staticHandlerContext, routeModules }: Pick<EntryContext, "staticHandlerContext" | "routeModules">) {
  return staticHandlerContext.matches.every(
    ({ route }) => (routeModules[route.id]?.handle as RouteHandle | undefined)?.hydrate !== false,
  );
}

/** What loaders and actions answered, for a hydrated page: as Remix's own `StreamTransfer` hands it over. */
async function handedOver(answers: EntryContext["serverHandoffStream"], nonce: string): Promise<string> {
  const text = await new Response(answers ?? null).text();
  return [`enqueue(${escapeScript(JSON.stringify(text))})`, "close()"]
    .map((call) => `<script nonce="${nonce}">window.__remixContext.streamController.${call};</script>`)
    .join("");
}

/** JSON within a script: nothing in it ends the script, or begins another. */
function escapeScript(json: string): string {
  return json.replace(
    /[&<>\u2028\u2029]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** Logs what a loader, an action or a render threw without meaning to; an aborted request is nobody's error. */
export function handleError(error: unknown, { request, context }: LoaderFunctionArgs | ActionFunctionArgs): void {
  // What a loader left for later refuses as a loader does.
  if (!request.signal.aborted && !(error instanceof Response)) logError(error, context.requestId);
}

function logError(error: unknown, requestId: string): void {
  console.error(
    `error request=${requestId} ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`,
  );
}
