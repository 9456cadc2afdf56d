"""The methods that ship, one file each: from tasks to rows, without a trainer."""
