import { createContext, useContext } from "react";

/** The request's id on a page that answers a failure on our side, otherwise null. */
export const FailedRequestContext = createContext<string | null>(null);

/** Shows the id of a request that failed on our side. The user can quote the id when reporting the error. */
export function FailedRequest() {
  const requestId = useContext(FailedRequestContext);
  if (!requestId) return null;
  return (
    <p className="text-muted text-small">
      Request ID <code className="break-all font-mono">{requestId}</code>
    </p>
  );
}
