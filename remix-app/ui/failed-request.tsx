import { createContext, useContext } from "react";
import { useBrand } from "./brand.ts";

/** The request's id on a page that answers a failure on our side, otherwise null. */
export const FailedRequestContext = createContext<string | null>(null);

/** Shows the id of a request that failed on our side. The user can quote the id when reporting the error. */
export function FailedRequest() {
  const requestId = useContext(FailedRequestContext);
  return requestId ? <RequestReference requestId={requestId} /> : null;
}

/** Shows a request's id, and how to quote it to support. */
export function RequestReference({ requestId }: { requestId: string }) {
  const { support } = useBrand();
  return (
    <p className="flex flex-wrap gap-x-3 text-muted text-small">
      <span>
        Request ID <code className="inline-block break-all font-mono">{requestId}</code>
      </span>
      {support ? (
        <a href={supportHref(support, requestId)} className="link">
          Contact support
        </a>
      ) : null}
    </p>
  );
}

/** Returns the address of support. If it is an email address, the email's subject names the request. */
export function supportHref(support: string, requestId: string): string {
  return support.startsWith("mailto:") ? `${support}?subject=${encodeURIComponent(`Request ${requestId}`)}` : support;
}
