import { useRouteLoaderData } from "@remix-run/react";
import { Credits } from "./money.tsx";
import { Notice } from "./notice.tsx";
import { Page, type PageProps } from "./page.tsx";

/** The data of the frame of AI studio pages. */
interface StudioFrame {
  creditNotice: { level: "low" | "empty"; available: string } | null;
}

/** Renders an AI studio page, and warns if credits are low. */
export function StudioPage({ children, ...page }: PageProps) {
  const frame = useRouteLoaderData("routes/frames/studio") as StudioFrame | undefined;
  return (
    <Page {...page}>
      {frame?.creditNotice ? <CreditNotice {...frame.creditNotice} /> : null}
      {children}
    </Page>
  );
}

function CreditNotice({ level, available }: NonNullable<StudioFrame["creditNotice"]>) {
  return (
    <Notice tone="warn">
      {level === "empty" ? (
        "Not enough credits: requests are refused (402 insufficient_credits). Ask a platform administrator to add credits."
      ) : (
        <>
          Credits are low: <Credits amount={available} /> left. Ask a platform administrator to add credits.
        </>
      )}
    </Notice>
  );
}
