import { createContext, useContext } from "react";

/**
 * The request that failed on our side, on a page that is sent as its answer and that no script takes over; null on
 * every other one. A page that is alive is told it with what its action answers.
 */
export const FailedRequestContext = createContext<string | null>(null);

/** What to quote of a failure of ours. */
export function FailedRequest({ id }: { id?: string | null | undefined }) {
  const sent = useContext(FailedRequestContext);
  const requestId = id ?? sent;
  if (!requestId) return null;
  return (
    <p className="text-muted text-small">
      Request ID <code className="break-all font-mono">{requestId}</code>
    </p>
  );
}
