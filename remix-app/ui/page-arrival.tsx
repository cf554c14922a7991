import { useLocation } from "@remix-run/react";
import { useEffect, useRef, useState } from "react";

/**
 * Says which page has come and puts the focus at its beginning, where a script brought it in place of another: for pages
 * that they load themselves browsers do both.
 */
export function PageArrival() {
  const { pathname, key } = useLocation();
  const shown = useRef({ pathname, key });
  const [title, setTitle] = useState("");
  useEffect(() => {
    if (shown.current.key === key) return;
    if (shown.current.pathname !== pathname) setTitle(document.title);
    shown.current = { pathname, key };
    // What had the focus went with what was there before, unless what came has given it to something.
    if (document.activeElement === document.body) document.getElementById("content")?.focus({ preventScroll: true });
  }, [pathname, key]);
  return (
    <p aria-live="polite" className="sr-only">
      {title}
    </p>
  );
}
