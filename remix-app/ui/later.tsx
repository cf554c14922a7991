import { type ReactNode, useContext } from "react";
import { PagePartContext } from "./drawing.ts";

/**
 * What a page shows of what its loader left for later (http/late-data.ts). A page has one of these, and all around it is
 * drawn without waiting; what is to be drawn but once then asks `useFrameDrawn`.
 */
export function Later<Found>({
  found,
  children,
}: {
  found: Found | Promise<Found>;
  children: (found: Found) => ReactNode;
}) {
  const part = useContext(PagePartContext);
  if (found instanceof Promise) return typeof part === "object" ? part.gap : null;
  return children(found);
}
