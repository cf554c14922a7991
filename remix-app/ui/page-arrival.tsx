import { useLocation } from "@remix-run/react";
import { useEffect, useRef, useState } from "react";

/**
 * Announces a page loaded by client-side navigation and moves the focus to its beginning, as browsers do for full page
 * loads.
 */
export function PageArrival() {
  const { pathname, key } = useLocation();
  const shown = useRef({ pathname, key });
  const [title, setTitle] = useState("");
  useEffect(() => {
    if (shown.current.key === key) return;
    if (shown.current.pathname !== pathname) setTitle(document.title);
    shown.current = { pathname, key };
    // The body has the focus if the focused element was removed with the previous page and the new page has focused
    // nothing yet.
    if (document.activeElement === document.body) document.getElementById("content")?.focus({ preventScroll: true });
  }, [pathname, key]);
  return (
    <p aria-live="polite" className="sr-only">
      {title}
    </p>
  );
}
