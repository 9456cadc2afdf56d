"""Where a batch's episodes are played: on threads of this process, or on Ray, on this machine or on many."""
