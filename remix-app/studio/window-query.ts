import { utcWindow } from "#shared/utc-time.ts";
import { pageQuery, readPageQuery } from "../http/page-query.ts";
import { problem } from "../http/problem.ts";

/** How a range and a page of it are asked for. */
export const windowQuery = utcWindow.extend(pageQuery.shape);

/** Which range is asked for, half-open, and which page of it. */
export interface WindowQuery {
  from: string | undefined;
  to: string | undefined;
  limit: number;
  cursor: string | undefined;
}

/**
 * Reads `from`, `to`, `limit` and `cursor`.
 * @throws Response 400 INVALID_REQUEST
 */
export function readWindowQuery(request: Request, { requestId }: { requestId: string }): WindowQuery {
  const { limit, cursor } = readPageQuery(request, { requestId });
  const parsed = utcWindow.safeParse(Object.fromEntries(new URL(request.url).searchParams));
  if (parsed.success) return { from: parsed.data.from, to: parsed.data.to, limit, cursor };
  const issue = parsed.error.issues[0];
  throw problem("INVALID_REQUEST", { requestId, detail: `${String(issue?.path[0])}: ${issue?.message}` });
}
