import { createContext, useContext } from "react";

/**
 * The id of the failed request on an error page without hydration, or null on every other page. A hydrated page gets
 * the id from its action's result.
 */
export const FailedRequestContext = createContext<string | null>(null);

/** Shows the id of a request that failed on our side. The user can quote the id when reporting the error. */
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
