import { Outlet } from "@remix-run/react";
import { AppFrame } from "../../ui/app-frame.tsx";

/** Renders the frame of the pages that belong to no section. The root's loader loads what it shows. */
export default function AccountFrame() {
  return (
    <AppFrame>
      <Outlet />
    </AppFrame>
  );
}
