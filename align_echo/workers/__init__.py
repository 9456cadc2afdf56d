"""Where a batch's episodes are played: on threads of this process, which others may compute the model for,
or on Ray, on this machine or on many."""
