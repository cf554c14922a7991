import { useLocation } from "@remix-run/react";
import { useEffect, useRef, useState } from "react";

/**
 * Says which page has come and puts the focus at its beginning, where a script brought it in place of another: for pages
 * that they load themselves browsers do both.
 */
export function PageArrival() {
  const { pathname } = useLocation();
  const shown = useRef(pathname);
  const [title, setTitle] = useState("");
  useEffect(() => {
    if (shown.current === pathname) return;
    shown.current = pathname;
    setTitle(document.title);
    // What had the focus went with the page before, unless the new one has given it to something.
    if (document.activeElement === document.body) document.getElementById("content")?.focus({ preventScroll: true });
  }, [pathname]);
  return (
    <p aria-live="polite" className="sr-only">
      {title}
    </p>
  );
}
