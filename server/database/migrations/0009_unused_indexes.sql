-- The next release drops `connections.account_user_id`: during this upgrade, a process of the former one still reads it.
DROP INDEX "deliveries_dead";--> statement-breakpoint
DROP INDEX "sessions_expires";--> statement-breakpoint
DROP INDEX "users_unnamed";
